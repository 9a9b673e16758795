"""Alembic run from code, so that an installed wheel can migrate its database."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

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
    """Upgrade the database to the newest revision. Several processes may do so at once."""
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def newest_revision() -> str | None:
    """Return the newest revision of this program."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()
