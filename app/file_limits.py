"""How many connections this process may hold: as many as it has use for, if the system lets it open so many files."""

import resource
from typing import Final

import structlog

log = structlog.get_logger(__name__)

CONNECTIONS_WANTED: Final = 4_096
FILES_KEPT: Final = 128
"""Open files for everything else: the database, the quorum's controllers, logs, report jobs."""


def connections_allowed() -> int:
    """Raise the limit on open files as far as this user may -> how many connections fit. Warns when that is few."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if least != most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return CONNECTIONS_WANTED
    allowed = max(16, min(CONNECTIONS_WANTED, most - FILES_KEPT))
    if allowed < CONNECTIONS_WANTED:
        log.warning(
            "few_open_files",
            limit=most,
            connections=allowed,
            wanted=CONNECTIONS_WANTED,
            remedy=f"allow {CONNECTIONS_WANTED + FILES_KEPT} open files: ulimit -Hn, or LimitNOFILE= of systemd",
        )
    return allowed
