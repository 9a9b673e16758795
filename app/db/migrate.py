"""Alembic run from code, so that an installed wheel can migrate its database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

CHECKOUT = Path(__file__).resolve().parents[2] / "migrations"
INSTALLED = Path(__file__).resolve().parents[1] / "_migrations"


def migrations_dir() -> Path:
    """Return the folder of the migrations: the wheel's, else the checkout's."""
    return INSTALLED if INSTALLED.is_dir() else CHECKOUT


def alembic_config() -> Config:
    """Return Alembic's configuration. There is no alembic.ini."""
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(engine: Engine) -> None:
    """Upgrade the database to the newest revision. Several processes may do so at once.

    SQLite alters a table by making it anew, and dropping the old one would change the rows that refer to it: so its
    foreign keys are off meanwhile, and checked at the end. Raises ValueError if a row refers to none then.
    """
    config = alembic_config()
    with engine.connect() as connection, _without_foreign_keys(connection), connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        if connection.dialect.name == "sqlite":
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise ValueError(f"the upgrade would leave rows that refer to none: {broken[:5]}")


@contextmanager
def _without_foreign_keys(connection: Connection) -> Iterator[None]:
    if connection.dialect.name != "sqlite":
        yield
        return
    raw = connection.connection.driver_connection
    assert raw is not None, "the connection is open"
    raw.execute("PRAGMA foreign_keys = OFF")  # has no effect within a transaction, which has not begun yet
    try:
        yield
    finally:
        raw.execute("PRAGMA foreign_keys = ON")


def newest_revision() -> str | None:
    """Return the newest revision of this program."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()
