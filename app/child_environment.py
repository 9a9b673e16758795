"""The environment of the programs that this one starts: all of its own but the secrets, which are for the web process alone."""

import os
from typing import Final

SECRETS: Final = ("CONCLAVE_ADMIN_TOKEN", "CONCLAVE_DATABASE_URL")
"""Variables that no child process is given: neither a node nor Spark's driver and its JVM."""


def child_environment() -> dict[str, str]:
    """Return this process's environment without the secrets."""
    return {name: value for name, value in os.environ.items() if name not in SECRETS}


def forget_secrets() -> None:
    """Take the secrets out of this process's environment, once its settings have been read."""
    for name in SECRETS:
        os.environ.pop(name, None)
