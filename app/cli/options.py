"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli import completion

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        exists=True,
        dir_okay=False,
        help="Properties file with client settings for a secured cluster: security.protocol, sasl.*, ssl.*.",
    ),
]
BrokersOption = Annotated[
    str, typer.Option("--bootstrap", "-b", metavar="HOST:PORT,…", help="Brokers to connect to first.")
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT,…", help="Brokers to connect to; without it, the REST API is used."
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
UrlOption = Annotated[
    str | None,
    typer.Option(help="Address of the web process; default: that of the context, else http://127.0.0.1:8080."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(help="API token; default: that of the context, else CONCLAVE_ADMIN_TOKEN in the environment."),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="A context by name; default: the current one (conclave context use).",
        autocompletion=completion.contexts,
    ),
]
