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

    To alter a table, SQLite copies it and drops the old one, which would change or delete the rows that refer to it. So
    the foreign keys are off during an upgrade, and checked at its end. Raises ValueError if one refers to no row.
    """
    config = alembic_config()
    with engine.connect() as connection, _without_foreign_keys(connection), connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        if connection.dialect.name == "sqlite":
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise ValueError(f"the upgrade would leave references to missing rows: {broken[:5]}")


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
