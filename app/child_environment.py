"""The environment of child processes: that of this process without its secrets."""

import os
import sys
from typing import Final

SECRETS: Final = (
    "CONCLAVE_ADMIN_TOKEN",
    "CONCLAVE_DATABASE_URL",
    "CONCLAVE_OIDC_CLIENT_SECRET",
    "CONCLAVE_SCHEMA_REGISTRY_PASSWORD",
    "CONCLAVE_SPARK_CONF",
    "CONCLAVE_WEBHOOK_SECRET",
)
"""Variables that no child process gets: neither a node nor Spark's driver and its JVM."""


def child_environment() -> dict[str, str]:
    """Return this process's environment without the secrets."""
    return {name: value for name, value in os.environ.items() if name not in SECRETS}


def python_environment() -> dict[str, str]:
    """Return `child_environment` for a Python program that imports modules from the same places as this process."""
    return {**child_environment(), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def forget_secrets() -> None:
    """Remove the secrets from this process's environment, after its settings have been read."""
    for name in SECRETS:
        os.environ.pop(name, None)
