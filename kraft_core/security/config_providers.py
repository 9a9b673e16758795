"""Config providers: secrets from files and the environment, as `${provider:path:key}` in a properties file.

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    ssl.keystore.password=${file:/etc/conclave/secrets.properties:keystore}
    ssl.key.password=${env:KEY_PASSWORD}

Supported are Kafka's FileConfigProvider (a key of a properties file), DirectoryConfigProvider (a file of a folder, as
Kubernetes mounts secrets) and EnvVarConfigProvider, with the parameters `allowed.paths` and `allowlist.pattern`. As in
Kafka, a variable of a provider that is not configured stays as it is, and one without a value is an error.

Source: AbstractConfig.resolveConfigVariables, ConfigTransformer, Kafka 4.3.1; KIP-297, KIP-887.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kraft_core.security.properties import SecurityConfigError
from kraft_core.storage.properties import parse_properties

PREFIX: Final = "config.providers"
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."

Lookup = Callable[[str, str], str | None]
"""Finds a value by path ("" for none) and key; None when there is none."""


def resolve_variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with every variable replaced by the value that its provider holds.

    Raises SecurityConfigError for an unknown provider class, a variable without a value, an unreadable file.
    """
    names = [name.strip() for name in properties.get(PREFIX, "").split(",") if name.strip()]
    if not names:
        return dict(properties)
    providers = {name: _provider(properties, name) for name in names}

    def resolve(key: str, text: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            lookup = providers.get(match[1])
            if lookup is None:
                return match[0]
            value = lookup(match[2] or "", match[3])
            if value is None:
                raise SecurityConfigError(f"Invalid value {match[0]} for configuration {key}: it has no value there")
            return value

        return _VARIABLE.sub(value_of, text)

    return {key: text if key.startswith(PREFIX) else resolve(key, text) for key, text in properties.items()}


def _provider(properties: Mapping[str, str], name: str) -> Lookup:
    key = f"{PREFIX}.{name}.class"
    class_name = properties.get(key, "")
    if class_name == _PACKAGE + "EnvVarConfigProvider":
        pattern = properties.get(f"{PREFIX}.{name}.param.allowlist.pattern", ".*")
        return lambda _path, variable: os.environ.get(variable) if re.fullmatch(pattern, variable) else None
    allowed = _allowed_paths(properties.get(f"{PREFIX}.{name}.param.allowed.paths", ""))
    if class_name == _PACKAGE + "FileConfigProvider":
        return lambda path, entry: _file_properties(allowed(path)).get(entry)
    if class_name == _PACKAGE + "DirectoryConfigProvider":
        return lambda path, entry: _file_text(allowed(path) / entry) if Path(entry).name == entry else None
    known = ", ".join(f"{_PACKAGE}{each}ConfigProvider" for each in ("File", "Directory", "EnvVar"))
    raise SecurityConfigError(f"Invalid value {class_name} for configuration {key}: must be one of {known}")


def _allowed_paths(setting: str) -> Callable[[str], Path]:
    """Return a parser of paths that refuses those outside of the folders and files in `setting`; empty allows all."""
    roots = [Path(part.strip()).resolve() for part in setting.split(",") if part.strip()]

    def path_of(text: str) -> Path:
        path = Path(text).resolve()
        if roots and not any(path.is_relative_to(root) for root in roots):
            raise SecurityConfigError(f"Invalid value {text} for a config provider: not within its allowed.paths")
        return path

    return path_of


def _file_properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SecurityConfigError(f"Invalid value {path} for a config provider: cannot be read: {reason}") from error


def _file_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, ValueError) as error:
        raise SecurityConfigError(f"Invalid value {path} for a config provider: cannot be read") from error
