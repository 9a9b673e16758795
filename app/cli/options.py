"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
