"""`conclave dump-log`: print the records of metadata segments and snapshots."""

import json
import sys
from pathlib import Path

import typer

from kraft_core.protocol.errors import CorruptBatch
from kraft_core.storage.dump_log import DAMAGED, Wanted, dump_file, dump_json, dumpable
from kraft_core.storage.files import StorageError


def print_dump(files: list[Path], types: list[str], first: int, last: int | None, *, as_json: bool) -> int:
    """Print the selected records of each file. Returns 1 when a file is damaged, after its readable records, else 0.

    Raises typer.BadParameter for an unknown type, and for a file that is neither a segment nor a snapshot.
    """
    try:
        wanted = Wanted.of(first, 2**63 - 1 if last is None else last, types)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--type") from None
    for path in files:
        try:
            dumpable(path)
        except StorageError as error:
            raise typer.BadParameter(str(error), param_hint="FILE") from None
    damaged = 0
    for path in files:
        try:
            if as_json:
                for record in dump_json(path, wanted):
                    sys.stdout.write(json.dumps({"file": str(path), **record}, ensure_ascii=False) + "\n")
            else:
                for line in dump_file(path, wanted):
                    sys.stdout.write(line + "\n")
                    damaged = 1 if line.startswith(DAMAGED) else damaged
        except CorruptBatch as bad:
            print(f"conclave: {path}: {bad.message}", file=sys.stderr)
            damaged = 1
    return damaged
