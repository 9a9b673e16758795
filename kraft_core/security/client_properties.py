"""The properties file of a client, as Kafka's tools take it with --command-config."""

from pathlib import Path

from kraft_core.security.config_providers import resolve_variables
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity, client_security
from kraft_core.security.properties import SecurityConfigError
from kraft_core.storage.properties import parse_properties


def load_client_properties(path: Path) -> dict[str, str]:
    """Read a properties file, without resolving its variables. Raises SecurityConfigError."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SecurityConfigError(f"Cannot read the properties file {path}: {reason}") from error


def load_client_security(path: Path | None) -> ClientSecurity:
    """Read the security settings of a properties file; PLAINTEXT without a file. Raises SecurityConfigError."""
    if path is None:
        return PLAINTEXT_CLIENT
    return client_security(resolve_variables(load_client_properties(path)))
