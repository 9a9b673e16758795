"""What commands with a client share: its settings, its tables and JSON, failures of items, confirmations."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import typer

from app.cli.web_process import WebError, chosen_address
from kraft_core.clients.admin.kafka_admin_client import ADMIN_CONFIGS, Admin
from kraft_core.configs.config_def import ConfigDef, ConfigException
from kraft_core.protocol.errors import KafkaError
from kraft_core.security.client_properties import load_client_properties
from kraft_core.security.config_providers import PREFIX as PROVIDERS
from kraft_core.security.properties import SecurityConfigError

if TYPE_CHECKING:  # imported where it is made, since an HTTP client takes long to import
    from app.cli.rest_admin import RestAdmin

RETRY_SECONDS: Final = 5.0
"""For how long a call over REST is repeated."""
API_TIMEOUT_MS: Final = 15_000
"""default.api.timeout.ms of commands: people wait for them."""

AnyAdmin: TypeAlias = "Admin | RestAdmin"
"""What commands ask: the brokers, or a web process."""


@dataclass(frozen=True, slots=True)
class Web:
    """The options that choose a web process."""

    url: str | None
    token: str | None
    context: str | None

    @property
    def is_given(self) -> bool:
        """Whether any of them was given."""
        return any(each is not None for each in (self.url, self.token, self.context))


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of a command with a client: of the brokers (`bootstrap`), else of a web process."""

    bootstrap: str | None
    command_config: Path | None
    web: Web
    as_json: bool = False
    dry_run: bool = False


def client_configs(bootstrap: str, command_config: Path | None, definitions: ConfigDef) -> dict[str, object]:
    """Return the configs of a client from --bootstrap and the properties file.

    Keys of the file that this kind of client does not have are named on standard error and left out, since one file is
    for all tools. Raises typer.BadParameter for a file that cannot be read.
    """
    try:
        properties = {} if command_config is None else load_client_properties(command_config)
    except SecurityConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--command-config") from None
    known = {name: text for name, text in properties.items() if name in definitions or name.startswith(f"{PROVIDERS}.")}
    unused = sorted(properties.keys() - known.keys())
    if unused:
        print(f"conclave: {command_config}: not used: {', '.join(unused)}", file=sys.stderr)
    return {**known, "bootstrap.servers": bootstrap}


def with_admin(options: ClientOptions, work: Callable[[AnyAdmin], Awaitable[int]]) -> int:
    """Run `work` with an admin client, and return its exit code.

    Raises typer.BadParameter for invalid settings, and WebError for what is no error of Kafka's over REST.
    """
    if options.bootstrap is None:
        return _with_web(options, work)
    if options.web.is_given:
        raise typer.BadParameter("give either --bootstrap or a web process", param_hint="--bootstrap")
    configs = {
        "default.api.timeout.ms": API_TIMEOUT_MS,
        **client_configs(options.bootstrap, options.command_config, ADMIN_CONFIGS),
    }

    async def run() -> int:
        try:
            admin = Admin(configs)
        except ConfigException as error:
            is_address = "bootstrap.servers" in str(error)
            raise typer.BadParameter(
                str(error), param_hint="--bootstrap" if is_address else "--command-config"
            ) from None
        async with admin:
            return await work(admin)

    return asyncio.run(run())


def _with_web(options: ClientOptions, work: Callable[[AnyAdmin], Awaitable[int]]) -> int:
    if options.command_config is not None:
        raise typer.BadParameter("it is for --bootstrap", param_hint="--command-config")
    from app.cli.rest_admin import RestAdmin
    from conclave.client.async_client import AsyncClient
    from conclave.client.errors import ConclaveError

    web = options.web
    url, token = chosen_address(web.url, web.token, web.context)

    async def run() -> int:
        async with AsyncClient(url, token, retry_seconds=RETRY_SECONDS) as client:
            return await work(RestAdmin(client))

    try:
        return asyncio.run(run())
    except ConclaveError as error:
        raise WebError(str(error)) from error
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url, --token") from None


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as columns. Nothing is truncated, so that names and ids can be copied; None is a dash."""
    cells = [tuple(header), *(tuple("-" if cell is None else str(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def error_text(error: KafkaError) -> str:
    """Return an error as `CODE: what is wrong`."""
    return f"{error.code.name}: {error}"


def error_json(error: KafkaError) -> dict[str, Any]:
    """Return an error as a JSON-ready object."""
    return {"error": error.code.name, "message": str(error)}


def report_failures(what: str, failed: Mapping[Any, KafkaError]) -> int:
    """Print a line on standard error for each failed item, and return the exit code."""
    for key, error in failed.items():
        print(f"conclave: {what} {key}: {error_text(error)}", file=sys.stderr)
    return 1 if failed else 0


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a deletion. Raises typer.Abort if the answer is no, typer.BadParameter if nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("standard input is no terminal: confirm with --yes", param_hint="--yes")
    typer.confirm(question, abort=True, err=True)


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse NAME=VALUE options. Raises typer.BadParameter that names the text."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"'{text}' is not NAME=VALUE", param_hint=option)
        found[name.strip()] = value
    return found
