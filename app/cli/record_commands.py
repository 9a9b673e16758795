"""The commands `conclave produce` and `conclave consume`: their arguments and options."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import BrokersOption, CommandConfig

Properties = Annotated[
    list[str] | None,
    typer.Option("--property", "-X", metavar="NAME=VALUE", help="Config of the client. May be repeated."),
]

FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="beginning|end|OFFSET|-COUNT|TIME",
        help="Where to start; -COUNT: so many records before the end of each partition; "
        "TIME: 2026-01-31T12:00:00Z or @MILLISECONDS. Default: end, or the group's committed offsets.",
    ),
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FIELD=TEXT|FIELD~PATTERN",
        help="Only records whose key, value or header:NAME has this text, or matches this regular expression (RE2). "
        "May be repeated: all must match.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", "-f", metavar="FORMAT", help=r"As of kcat: %t %p %o %k %s %h %T %K %S, \n, \t. Default: '%s\n'."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("produce")(produce)
    app.command("consume")(consume)


def produce(
    topic: Annotated[str, typer.Argument(help="Topic to write to.")],
    bootstrap: BrokersOption,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]…", help="Files of lines; default: standard input, also '-'.")
    ] = None,
    *,
    command_config: CommandConfig = None,
    properties: Properties = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help=r"Text between key and value, such as '\t'."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of all records without one of their own.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header. May be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Partition; default: the key decides.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option("--codec", "-z", help="Compression: none, gzip, snappy, lz4 or zstd.")
    ] = None,
    acks: Annotated[str | None, typer.Option("--acks", help="Acknowledgements: all, 1 or 0.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", min=0.001, help="Most records per second.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many records.")] = None,
    empty_is_null: Annotated[
        bool, typer.Option("--null", "-Z", help="Send empty keys and values as null: a null value deletes a key.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Lines are JSON objects, such as `consume --json` prints.")
    ] = False,
) -> None:
    """Send lines as records. The exit code is 1 if some are not delivered, 2 if a line is no record."""
    from app.cli.client_options import client_configs, pairs
    from app.cli.client_run import UsageError
    from app.cli.produce import DEFAULTS, ProduceOptions, run_produce
    from app.cli.record_lines import json_parser, text_parser
    from app.records.formats import FormatTextError, unescaped
    from kraft_core.clients.producer.producer_config import producer_config_def
    from kraft_core.configs.config_def import ConfigException

    if as_json and (key_separator is not None or empty_is_null):
        raise typer.BadParameter("exclude --key-separator and --null: JSON has fields and null", param_hint="--json")
    headers = tuple(_header(text) for text in header or [])
    key_bytes = None if key is None else key.encode()
    try:
        separator = None if key_separator is None else unescaped(key_separator)
    except FormatTextError as error:
        raise typer.BadParameter(str(error), param_hint="--key-separator") from None
    if separator == b"":
        raise typer.BadParameter("must not be empty", param_hint="--key-separator")
    configs = DEFAULTS | client_configs(bootstrap, command_config, producer_config_def())
    configs |= pairs("--property", properties or [])
    configs |= {name: value for name, value in {"compression.type": codec, "acks": acks}.items() if value is not None}
    options = ProduceOptions(
        topic=topic,
        configs=configs,
        files=files or [],
        parse=json_parser(key=key_bytes, headers=headers)
        if as_json
        else text_parser(key_separator=separator, key=key_bytes, headers=headers, empty_is_null=empty_is_null),
        partition=partition,
        rate=rate,
        count=count,
    )
    try:
        raise typer.Exit(run_produce(options))
    except ConfigException as error:
        raise UsageError(str(error)) from None


def consume(
    topic: Annotated[str, typer.Argument(help="Topic to read.")],
    bootstrap: BrokersOption,
    *,
    command_config: CommandConfig = None,
    properties: Properties = None,
    start: FromOption = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="OFFSET|TIME", help="First offset or time that is not read.")
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="End behind the last record instead of waiting for more.")
    ] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition. May be repeated.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-G", help="Read as a member of this group and commit what is printed.")
    ] = None,
    filters: FilterOption = None,
    template: FormatOption = None,
    null: Annotated[bool, typer.Option("--null", "-Z", help="Print NULL for null keys and values.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per record.")] = False,
) -> None:
    """Print records until Ctrl-C, or until one of --exit-at-end, --to and --count ends it."""
    from app.cli.client_options import client_configs, pairs
    from app.cli.client_run import UsageError
    from app.cli.consume import DEFAULTS, ConsumeOptions, run_consume
    from app.records.filters import FilterTextError, RecordFilters, filter_of
    from app.records.formats import DEFAULT_FORMAT, FormatTextError, format_of, json_line
    from app.records.positions import PositionTextError, parse_from, parse_to
    from kraft_core.clients.consumer.consumer_config import consumer_config_def
    from kraft_core.configs.config_def import ConfigException

    if as_json and (template is not None or null):
        raise typer.BadParameter("excludes --format and --null", param_hint="--json")
    if group is not None and (to is not None or partition):
        raise typer.BadParameter("excludes --to and --partition: the group assigns partitions", param_hint="--group")
    if group is not None and start not in {None, "beginning", "end"}:
        raise typer.BadParameter(
            f"'{start}' is not allowed with --group: allowed are beginning and end, for partitions without a "
            "committed offset",
            param_hint="--from",
        )
    configs = DEFAULTS | client_configs(bootstrap, command_config, consumer_config_def())
    configs.pop("group.id", None)  # a file that tools share; only a member commits
    given = pairs("--property", properties or [])
    if "group.id" in given:
        raise typer.BadParameter("group.id is not allowed: use --group", param_hint="--property")
    configs |= given
    try:
        options = ConsumeOptions(
            topic=topic,
            configs=configs,
            start=parse_from(start or "end"),
            end=None if to is None else parse_to(to),
            exit_at_end=exit_at_end,
            count=count,
            partitions=partition or [],
            group=group,
            filters=RecordFilters(filter_of(text) for text in filters or []),
            format=json_line if as_json else format_of(template or DEFAULT_FORMAT, null=b"NULL" if null else b""),
        )
        raise typer.Exit(run_consume(options))
    except (ConfigException, FilterTextError, FormatTextError, PositionTextError) as error:
        raise UsageError(str(error)) from None


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"'{text}' is not NAME=VALUE, or NAME for a null", param_hint="--header")
    return name, value.encode() if separator else None
