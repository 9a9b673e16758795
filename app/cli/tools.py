"""`conclave dump-log` and `conclave config`."""

import json
import sys
from pathlib import Path

import typer

from kraft_core.protocol.errors import CorruptBatch
from kraft_core.storage.dump_log import DAMAGED, Wanted, dump_file, dump_json, dumpable
from kraft_core.storage.files import StorageError


def print_dump(files: list[Path], types: list[str], first: int, last: int | None, *, as_json: bool) -> int:
    """Print the wanted records of each file; 1 when one is damaged, after what came before the damage, else 0.

    Raises typer.BadParameter for an unknown type or a file that is no segment and no snapshot.
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


def show_config(path: Path | None, *, check: bool, as_json: bool) -> None:
    """Check the settings of a node (.properties) or of the web process; without `check` show them too.

    Raises ConfigError or SettingsError, one line for each wrong setting.
    """
    values = _node_values(path) if path is not None and path.suffix != ".toml" else _web_values(path)
    if check:
        print(json.dumps({"ok": True}) if as_json else f"{path or 'The environment'}: OK")
    elif as_json:
        print(json.dumps(values, indent=2, default=str))
    else:
        for name, value in values.items():
            print(f"{name}={_shown(value)}")


def _node_values(path: Path) -> dict[str, object]:
    from kraft_core.server.config.kafka_config import KafkaConfig
    from kraft_core.server.log_format import configure_logging

    configure_logging("WARNING")
    return dict(KafkaConfig.load(path).public_values())


def _web_values(path: Path | None) -> dict[str, object]:
    from app.config import load_settings

    return load_settings(path).model_dump()


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
