"""Advisory locks of PostgreSQL, held until the end of a transaction. SQLite allows one writer in any case."""

from enum import IntEnum

from sqlalchemy import func, select
from sqlalchemy.orm import Session


class Lock(IntEnum):
    """What only one transaction does at a time. The values are the locks' keys, the same in all web processes."""

    RUN_CREATION = 0x636F6E636C617665
    CALLER_SHARES = 0x636F6E636C617666
    ELECTIONS = 0x636F6E636C617667


def hold(session: Session, lock: Lock) -> None:
    """Wait for a lock and hold it."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(lock)))
