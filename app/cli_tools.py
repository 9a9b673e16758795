"""`conclave dump-log` and `conclave config`."""

import json
import sys
from pathlib import Path

from kraft_core.storage.dump_log import dump_file, dump_json, dumpable


def print_dump(files: list[Path], *, as_json: bool) -> None:
    """Print the records of each file. Raises StorageError, and CorruptBatch (with `as_json`) at damage."""
    for path in files:
        dumpable(path)
    for path in files:
        if as_json:
            for record in dump_json(path):
                sys.stdout.write(json.dumps({"file": str(path), **record}, ensure_ascii=False) + "\n")
        else:
            for line in dump_file(path):
                sys.stdout.write(line + "\n")


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
    from kraft_core.server.config import KafkaConfig
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
