"""`conclave config`: check a settings file, and print the settings."""

import json
from pathlib import Path


def show_config(path: Path | None, *, check: bool, as_json: bool) -> None:
    """Check a node's settings, or the web process's for a .toml file or None; without `check`, print them too.

    Raises ConfigError or SettingsError, with one line for each wrong setting.
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

    settings = load_settings(path)
    return {**settings.model_dump(), "spark_conf": settings.public_spark_conf}


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value) if value else ""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
