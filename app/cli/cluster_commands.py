"""`conclave topics|configs|brokers|groups`: at the brokers (`--bootstrap`), else over the REST API of a web process.

Each command imports its work when it runs, so that help is fast.
"""

from pathlib import Path
from typing import Annotated

import typer

from app.cli import completion
from app.cli.options import (
    ClusterOption,
    CommandConfig,
    ContextOption,
    DryRunOption,
    JsonOption,
    TokenOption,
    UrlOption,
    YesOption,
)

topics = typer.Typer(help="List, describe, create, alter and delete topics.", no_args_is_help=True)
configs = typer.Typer(help="Show and change configs of topics, brokers, groups and clients.", no_args_is_help=True)
brokers = typer.Typer(help="Show the brokers of a cluster.", no_args_is_help=True)
groups = typer.Typer(
    help="Show consumer groups with their lag, reset their offsets, delete them.", no_args_is_help=True
)

TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC…", autocompletion=completion.topics)]
ConfigPairs = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A topic config. May be repeated.")
]
TopicEntity = Annotated[str | None, typer.Option("--topic", help="A topic.", autocompletion=completion.topics)]
BrokerEntity = Annotated[int | None, typer.Option("--broker", min=0, help="A broker by id.")]
BrokerDefaults = Annotated[bool, typer.Option("--broker-defaults", help="The dynamic defaults of all brokers.")]
LoggerEntity = Annotated[int | None, typer.Option("--broker-logger", min=0, help="The log levels of a broker.")]
GroupEntity = Annotated[str | None, typer.Option("--group", help="A group.", autocompletion=completion.groups)]
ClientMetricsEntity = Annotated[str | None, typer.Option("--client-metrics", help="A subscription to client metrics.")]
GroupIds = Annotated[list[str], typer.Argument(metavar="GROUP…", autocompletion=completion.groups)]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(topics, name="topics")
    app.add_typer(configs, name="configs")
    app.add_typer(brokers, name="brokers")
    app.add_typer(groups, name="groups")


@topics.command("list")
def topics_list(
    *,
    bootstrap: ClusterOption = None,
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics too.")] = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """List topics with their partitions and replicas."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.topics import list_topics

    raise typer.Exit(
        list_topics(ClientOptions(bootstrap, command_config, Web(url, token, context), as_json), internal=internal)
    )


@topics.command("describe")
def topics_describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC…]", help="Default: all but internal.", autocompletion=completion.topics),
    ] = None,
    *,
    bootstrap: ClusterOption = None,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the partitions of topics: leaders, replicas and in-sync replicas; and the configs that were set."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.topics import describe_topics

    raise typer.Exit(
        describe_topics(ClientOptions(bootstrap, command_config, Web(url, token, context), as_json), names or [])
    )


@topics.command("create")
def topics_create(
    names: TopicNames,
    *,
    bootstrap: ClusterOption = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Partitions; default: as the brokers say.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="Replicas; default: as the brokers say.")
    ] = None,
    config: ConfigPairs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that exists already is no failure.")
    ] = False,
    dry_run: DryRunOption = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create topics."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.topics import NewTopics, create_topics

    new = NewTopics(names, partitions or -1, replication_factor or -1, config or [], if_not_exists)
    raise typer.Exit(
        create_topics(ClientOptions(bootstrap, command_config, Web(url, token, context), as_json, dry_run), new)
    )


@topics.command("alter")
def topics_alter(
    names: TopicNames,
    *,
    bootstrap: ClusterOption = None,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="Partition count to have in the end.")],
    dry_run: DryRunOption = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add partitions to topics. Records with keys go to other partitions from then on. Configs: `conclave configs`."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.topics import add_partitions

    raise typer.Exit(
        add_partitions(
            ClientOptions(bootstrap, command_config, Web(url, token, context), as_json, dry_run), names, partitions
        )
    )


@topics.command("delete")
def topics_delete(
    names: TopicNames,
    *,
    bootstrap: ClusterOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete topics and all their records."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.topics import delete_topics

    raise typer.Exit(
        delete_topics(
            ClientOptions(bootstrap, command_config, Web(url, token, context), as_json, dry_run), names, yes=yes
        )
    )


@configs.command("describe")
def configs_describe(
    *,
    bootstrap: ClusterOption = None,
    topic: TopicEntity = None,
    broker: BrokerEntity = None,
    broker_defaults: BrokerDefaults = False,
    broker_logger: LoggerEntity = None,
    group: GroupEntity = None,
    client_metrics: ClientMetricsEntity = None,
    everything: Annotated[bool, typer.Option("--all", help="Show defaults too.")] = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the configs that are set, and where their values come from."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.configs import describe_configs, resource_of

    resource = resource_of(topic, broker, broker_defaults, broker_logger, group, client_metrics)
    options = ClientOptions(bootstrap, command_config, Web(url, token, context), as_json)
    raise typer.Exit(describe_configs(options, resource, everything=everything))


@configs.command("alter")
def configs_alter(
    *,
    bootstrap: ClusterOption = None,
    topic: TopicEntity = None,
    broker: BrokerEntity = None,
    broker_defaults: BrokerDefaults = False,
    broker_logger: LoggerEntity = None,
    group: GroupEntity = None,
    client_metrics: ClientMetricsEntity = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a config. May be repeated.")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="NAME", help="Return to the default. May be repeated.")
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="NAME=VALUE", help="Add to a list. May be repeated.")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", metavar="NAME=VALUE", help="Remove from a list. May be repeated.")
    ] = None,
    dry_run: DryRunOption = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change configs: all of them or none."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.configs import alter_configs, changes_of, resource_of

    resource = resource_of(topic, broker, broker_defaults, broker_logger, group, client_metrics)
    changes = changes_of(set_ or [], delete or [], append or [], subtract or [])
    raise typer.Exit(
        alter_configs(
            ClientOptions(bootstrap, command_config, Web(url, token, context), as_json, dry_run), resource, changes
        )
    )


@brokers.command("list")
def brokers_list(
    *,
    bootstrap: ClusterOption = None,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """List brokers with their addresses and how many partitions they have and lead."""
    from app.cli.brokers import list_brokers
    from app.cli.client_options import ClientOptions, Web

    raise typer.Exit(list_brokers(ClientOptions(bootstrap, command_config, Web(url, token, context), as_json)))


@brokers.command("describe")
def brokers_describe(
    ids: Annotated[list[int], typer.Argument(metavar="ID…", min=0)],
    *,
    bootstrap: ClusterOption = None,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the log directories of brokers and the configs that are set on them."""
    from app.cli.brokers import describe_brokers
    from app.cli.client_options import ClientOptions, Web

    raise typer.Exit(describe_brokers(ClientOptions(bootstrap, command_config, Web(url, token, context), as_json), ids))


@groups.command("list")
def groups_list(
    *,
    bootstrap: ClusterOption = None,
    state: Annotated[list[str] | None, typer.Option("--state", help="Only this state. May be repeated.")] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type: classic, consumer, share or streams.")
    ] = None,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """List groups with their type, protocol, state and coordinator."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.groups import list_groups

    raise typer.Exit(
        list_groups(
            ClientOptions(bootstrap, command_config, Web(url, token, context), as_json), state or [], type_ or []
        )
    )


@groups.command("describe")
def groups_describe(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP…]", help="Default: all.", autocompletion=completion.groups),
    ] = None,
    *,
    bootstrap: ClusterOption = None,
    members: Annotated[bool, typer.Option("--members", help="Show members and what is assigned to them.")] = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the committed offsets and the lag of groups, partition by partition."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.groups import describe_groups

    raise typer.Exit(
        describe_groups(
            ClientOptions(bootstrap, command_config, Web(url, token, context), as_json), ids or [], members=members
        )
    )


@groups.command("reset")
def groups_reset(
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=completion.groups)],
    *,
    bootstrap: ClusterOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC[:PARTITION,…]", help="Topic to reset. May be repeated."),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All partitions with a committed offset.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the committed offset, else to the end.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", metavar="ISO", help="To the first record at or after this time (UTC)."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="PnDTnHnMnS", help="To the first record of this last time.")
    ] = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", help="By this many records; negative: back.")] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            exists=True,
            dir_okay=False,
            help="CSV lines: topic,partition,offset; a group may stand in front.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move the committed offsets of a group without members."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.groups_reset import ResetOptions, reset_group

    wanted = ResetOptions(
        group_id=group,
        topics=topic or [],
        all_topics=all_topics,
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        to_datetime=to_datetime,
        by_duration=by_duration,
        shift_by=shift_by,
        from_file=from_file,
    )
    raise typer.Exit(
        reset_group(ClientOptions(bootstrap, command_config, Web(url, token, context), as_json, dry_run), wanted)
    )


@groups.command("delete")
def groups_delete(
    ids: GroupIds,
    *,
    bootstrap: ClusterOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    command_config: CommandConfig = None,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete groups without members, and all their committed offsets."""
    from app.cli.client_options import ClientOptions, Web
    from app.cli.groups import delete_groups

    raise typer.Exit(
        delete_groups(
            ClientOptions(bootstrap, command_config, Web(url, token, context), as_json, dry_run), ids, yes=yes
        )
    )
