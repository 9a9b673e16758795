"""Run by Alembic, through app.db.migrate: one connection, one transaction, one migrating process at a time."""

from importlib import import_module
from importlib.util import find_spec

from alembic import context
from sqlalchemy import Connection, text

from app.db.base import Base, UtcDateTime

MODEL_MODULES = ("app.db.models", "app.reports.models", "app.reports.executor.models", "app.reports.lake.leases")
ADVISORY_LOCK = 0x436F6E636C617665  # "Conclave"


def render_item(kind: str, item: object, _context: object) -> str | bool:
    """Write our own column kinds as the plain types behind them, so that migrations outlive the models."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, UtcDateTime) else False


def run(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        render_item=render_item,
    )
    context.run_migrations()


for module in MODEL_MODULES:
    if find_spec(module) is not None:
        import_module(module)

given = context.config.attributes.get("connection")
if given is None:
    raise SystemExit("run migrations with: conclave web, or python -m app.db (this project has no alembic.ini)")
run(given)
