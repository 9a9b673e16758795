"""What all tables share: names of constraints, column kinds, and time that is always UTC."""

import datetime as dt
from typing import Annotated, Any, Final

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, MetaData, String
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.types import TypeDecorator

NAMING_CONVENTION: Final = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name: a batch migration on SQLite cannot drop a nameless one."""


class UtcDateTime(TypeDecorator[dt.datetime]):
    """A moment with its zone on both sides. SQLite keeps no zone, so UTC is put back when reading.

    Raises ValueError for a moment without a zone: whose noon it means would be a guess.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Turn into UTC before it is stored."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.astimezone(dt.UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> dt.datetime | None:
        """Put the zone back where the database keeps none."""
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
    """The one declarative base; every model module of `app` builds on it."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)


def utc_now() -> dt.datetime:
    """Return the current moment, with zone."""
    return dt.datetime.now(dt.UTC)
