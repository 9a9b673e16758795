"""What all tables share: names of constraints, kinds of columns, and times in UTC."""

import datetime as dt
from typing import Annotated, Any, Final

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

NAMING_CONVENTION: Final = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name, since a batch migration on SQLite cannot drop a nameless one."""


class UtcDateTime(TypeDecorator[dt.datetime]):
    """A time with its zone on both sides. SQLite stores no zone, so UTC is added when reading.

    Raises ValueError for a time without a zone, which would be ambiguous.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Convert to UTC before storing."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.astimezone(dt.UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> dt.datetime | None:
        """Add the zone where the database stores none."""
        if value is None:
            return None
        moment: dt.datetime = value
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


PK = Annotated[int, mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)]
Offset = Annotated[int, mapped_column(BigInteger)]
Name = Annotated[str, mapped_column(String(255))]
Digest = Annotated[str, mapped_column(String(64))]  # SHA-256 in hex
Moment = Annotated[dt.datetime, mapped_column(UtcDateTime)]


class Base(DeclarativeBase):
    """The declarative base of all models."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)


ClusterKey = Annotated[str, mapped_column(String(32))]
"""The name of a cluster in addresses and in the database; "" is the cluster of the settings."""


class OfCluster:
    """A row that belongs to one of the process's clusters; through `Database.of_cluster` only those of one are used."""

    cluster: Mapped[ClusterKey] = mapped_column(server_default="", index=True)


def utc_now() -> dt.datetime:
    """Return the current time, with zone."""
    return dt.datetime.now(dt.UTC)
