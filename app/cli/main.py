"""`conclave …`: all commands. Each imports what it needs when it runs, so that help is fast.

Exit codes: 0 done, 1 failed (one line on standard error gives the reason), 2 wrong use.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import access_commands, cluster_commands, context_commands, record_commands, report_commands
from app.cli.options import CommandConfig, JsonOption

app = typer.Typer(
    name="conclave",
    help="A control plane for Apache Kafka: quorum nodes, the dashboard and its tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
quorum = typer.Typer(help="Show the quorum and change its voters.", no_args_is_help=True)
app.add_typer(quorum, name="quorum")
record_commands.add_to(app)
cluster_commands.add_to(app)
report_commands.add_to(app)
access_commands.add_to(app)
context_commands.add_to(app)

USAGE_ERROR: Any = typer.BadParameter.__base__
"""The class of all usage errors. Typer exports only its subclasses."""

ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", exists=True, dir_okay=False, help="server.properties file of the node.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the effect and the preconditions, and change nothing.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Send the request even if preconditions fail. The leader may still refuse it.")
]
Bootstrap = Annotated[
    str, typer.Option("--bootstrap-controller", metavar="HOST:PORT,…", help="Controllers to connect to first.")
]


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a random uuid for use as a cluster id or a directory id."""
    from kraft_core.protocol.uuids import random_uuid as draw
    from kraft_core.protocol.uuids import uuid_to_text

    print(uuid_to_text(draw()))


@app.command("format")
def format_command(
    config: ConfigOption,
    cluster_id: Annotated[str, typer.Option("--cluster-id", "-t", help="Cluster id.")],
    *,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="Start a quorum with this node as its only voter.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRID,…",
            help="The initial voters. Use the same list on every node.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option("--no-initial-controllers", "-N", help="Start without voters: this node joins a quorum later."),
    ] = False,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="Kafka release whose feature levels the cluster starts with."),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="Level of one feature. May be repeated."),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="MECHANISM=[name=…,password=…]",
            help="SCRAM user that the cluster starts with, such as SCRAM-SHA-256=[name=alice,password=secret].",
        ),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Skip directories that are already formatted.")
    ] = False,
) -> None:
    """Format the log directories of a node before its first start."""
    from app.cli.format import run_format

    run_format(
        config,
        cluster_id,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        release_version=release_version,
        features=feature or [],
        scram_arguments=add_scram or [],
        ignore_formatted=ignore_formatted,
    )


@app.command()
def node(config: ConfigOption) -> None:
    """Run a node until it is stopped: controller, broker or both, according to process.roles."""
    from kraft_core.kafka_raft_server import run_node
    from kraft_core.server.config.kafka_config import KafkaConfig
    from kraft_core.server.log_format import configure_logging

    configure_logging()
    raise typer.Exit(run_node(KafkaConfig.load(config)))


@app.command()
def web(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Settings file (TOML).")] = None,
) -> None:
    """Run the web process: dashboard, REST and reports. Settings come from the file and from CONCLAVE_… variables."""
    from app.config import load_settings
    from app.web import run_web

    raise typer.Exit(run_web(load_settings(config)))


@app.command("login-link")
def login_link(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Settings file (TOML).")] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of `conclave up`.")] = None,
    user: Annotated[str, typer.Option(help="User who can log in with the link, once.")] = "admin",
    url: Annotated[str | None, typer.Option(help="Address of the web process, if the settings do not have it.")] = None,
) -> None:
    """Create a one-time login link for a user who cannot log in. The web process may be running."""
    from app.cli.login_link import print_login_link

    print_login_link(config, data, user, url)


@app.command()
def up(
    data: Annotated[Path, typer.Option(help="Folder for all data.")] = Path("conclave-data"),
    http_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the dashboard and REST.")] = 8080,
    kafka_port: Annotated[int, typer.Option(min=1, max=65535, help="Port for Kafka clients.")] = 9092,
    controller_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the quorum.")] = 9093,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Run one node and the web process together. The data folder is formatted on first use."""
    from app.cli.up import UpOptions, run_up

    options = UpOptions(
        data=data, host=host, http_port=http_port, kafka_port=kafka_port, controller_port=controller_port
    )
    raise typer.Exit(run_up(options))


@app.command("dump-log")
def dump_log(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Segments (.log) and snapshots (.checkpoint).")],
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="NAME", help="Only records of this type, such as TOPIC_RECORD. May be repeated."
        ),
    ] = None,
    first: Annotated[int, typer.Option("--from", min=0, metavar="OFFSET", help="First offset to show.")] = 0,
    last: Annotated[
        int | None, typer.Option("--to", min=0, metavar="OFFSET", help="Last offset to show.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the records of metadata segments and snapshots, without secrets. The exit code is 1 for a damaged file."""
    from app.cli.dump_log import print_dump

    raise typer.Exit(print_dump(files, types or [], first, last, as_json=as_json))


@app.command("config")
def config_command(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="server.properties of a node, or .toml file of the web process."),
    ] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Check only, print no settings.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a settings file and print every setting with its value. Secrets are hidden."""
    from app.cli.config import show_config

    show_config(config, check=check, as_json=as_json)


@quorum.command("describe")
def quorum_describe(
    bootstrap_controller: Bootstrap,
    *,
    command_config: CommandConfig = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every second until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the leader, epoch, high watermark, voters and observers."""
    from app.cli.quorum_describe import describe

    describe(bootstrap_controller, command_config, watch=watch, as_json=as_json)


@quorum.command("add")
def quorum_add(
    bootstrap_controller: Bootstrap,
    config: ConfigOption,
    *,
    command_config: CommandConfig = None,
    dry_run: DryRunOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the running controller of this server.properties file a voter, if all preconditions hold."""
    from app.cli.quorum_voters import ChangeOptions, add_voter

    options = ChangeOptions(dry_run=dry_run, force=force, as_json=as_json, command_config=command_config)
    raise typer.Exit(add_voter(bootstrap_controller, config, options))


@quorum.command("remove")
def quorum_remove(
    bootstrap_controller: Bootstrap,
    controller_id: Annotated[int, typer.Option(min=0, help="Node id of the voter.")],
    controller_directory_id: Annotated[str, typer.Option(help="Directory id of the voter, as `describe` shows it.")],
    *,
    command_config: CommandConfig = None,
    dry_run: DryRunOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a voter from the quorum, if all preconditions hold."""
    from app.cli.quorum_voters import ChangeOptions, remove_voter

    options = ChangeOptions(dry_run=dry_run, force=force, as_json=as_json, command_config=command_config)
    raise typer.Exit(remove_voter(bootstrap_controller, controller_id, controller_directory_id, options))


@quorum.command("restore")
def quorum_restore(
    config: ConfigOption,
    copies: Annotated[
        list[Path],
        typer.Option(
            "--from",
            exists=True,
            file_okay=False,
            help="Metadata directory of a stopped node, or a copy of it. May be repeated: the newest is restored.",
        ),
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore a quorum that has lost all its controllers, on the controller of this server.properties file."""
    from app.cli.quorum_restore import restore_quorum

    restore_quorum(config, copies, dry_run=dry_run, as_json=as_json)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and end the process with its exit code. Expected failures print one line.

    Everything that a command writes is readable by its user alone (umask 077): data folders, logs, keys and the
    database.
    """
    os.umask(0o077)
    try:
        code = app(args=arguments, standalone_mode=False)
    except USAGE_ERROR as wrong:
        sys.exit(_print_usage_error(wrong))
    except typer.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)  # the reader of the output has closed it
    except Exception as error:
        if not _is_expected(error):
            raise
        print(f"conclave: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(code or 0)


def _print_usage_error(error: Any) -> int:
    """Print one line about the wrong use. Without any argument, print the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    message = " ".join(error.format_message().split())
    command = f"{error.ctx.command_path}: " if error.ctx is not None else "conclave: "
    hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
    print(f"{command}{message}{hint}", file=sys.stderr)
    return 2


def _is_expected(error: Exception) -> bool:
    from app.config import SettingsError
    from kraft_core.protocol.errors import KafkaError
    from kraft_core.server.config.kafka_config import ConfigError
    from kraft_core.storage.files import StorageError

    return isinstance(error, (ConfigError, ConnectionError, KafkaError, OSError, SettingsError, StorageError))


if __name__ == "__main__":
    main()
