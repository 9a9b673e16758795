"""The lease of a cluster's part of a lake: it names the web process whose child writes to it.

The key is the lake's place with the cluster's id, so web processes with folders of their own write each to its own, and
those that share an object store take turns.
"""

import datetime as dt
import hashlib
import socket
from typing import Final

from sqlalchemy import String
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.db.base import Base, Moment

LEASE_SECONDS: Final = 60
"""How long the lease outlives its last extension. The clocks of web processes must differ by less."""


class LakeLease(Base):
    """The process that may write to a lake until `lease_until`."""

    __tablename__ = "lake_leases"
    lake: Mapped[str] = mapped_column(String(64), primary_key=True)
    holder: Mapped[str] = mapped_column(String(64))
    lease_until: Mapped[Moment]


def lake_key(location: str, cluster_id: str) -> str:
    """Return the key of a cluster's part of a lake: a folder belongs to this machine, a URL is the same everywhere."""
    place = location if "://" in location else f"{socket.gethostname()}:{location}"
    return hashlib.sha256(f"{place}#{cluster_id}".encode()).hexdigest()


def take_lease(session: Session, lake: str, holder: str, now: dt.datetime) -> bool:
    """Take or extend the lease. Returns False while another holder has it.

    Two processes that take a new lake's first lease at once get an IntegrityError in one of them.
    """
    lease = session.get(LakeLease, lake, with_for_update=True)
    until = now + dt.timedelta(seconds=LEASE_SECONDS)
    if lease is None:
        session.add(LakeLease(lake=lake, holder=holder, lease_until=until))
        session.flush()
        return True
    if lease.holder != holder and lease.lease_until > now:
        return False
    lease.holder, lease.lease_until = holder, until
    return True


def release_lease(session: Session, lake: str, holder: str) -> None:
    """End the lease if `holder` has it."""
    lease = session.get(LakeLease, lake, with_for_update=True)
    if lease is not None and lease.holder == holder:
        session.delete(lease)
