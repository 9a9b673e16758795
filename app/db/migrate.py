"""Alembic run from code, so that an installed wheel brings its database up to date by itself."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

CHECKOUT = Path(__file__).resolve().parents[2] / "migrations"
INSTALLED = Path(__file__).resolve().parents[1] / "_migrations"


def migrations_dir() -> Path:
    """Return the folder of the migrations: the wheel's own, or the checkout's."""
    return INSTALLED if INSTALLED.is_dir() else CHECKOUT


def alembic_config() -> Config:
    """Return Alembic's configuration; there is no alembic.ini to keep in step."""
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(engine: Engine) -> None:
    """Bring the database to the newest revision; safe to run from several processes at once."""
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def newest_revision() -> str | None:
    """Return the newest revision this program brings."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()
