"""report schedules with scope, time zone, triggers and webhooks

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0007, after 0006, 2026-11-22 16:55:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("report_schedules", schema=None) as batch_op:
        batch_op.add_column(sa.Column("time_zone", sa.String(length=64), server_default="UTC", nullable=False))
        batch_op.add_column(sa.Column("topic_prefix", sa.String(length=249), server_default="", nullable=False))
        batch_op.add_column(sa.Column("on_change", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("webhook_url", sa.String(length=2048), nullable=True))
        batch_op.add_column(sa.Column("topology", sa.JSON(none_as_null=True), nullable=True))
    with op.batch_alter_table("report_runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("topic_prefix", sa.String(length=249), server_default="", nullable=False))
    op.create_table(
        "report_webhooks",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("url", sa.String(length=2048), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state in ('waiting', 'sending', 'delivered', 'failed', 'unconfirmed')",
            name=op.f("ck_report_webhooks_state"),
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["report_runs.id"], name=op.f("fk_report_webhooks_run_id_report_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_report_webhooks")),
    )
    with op.batch_alter_table("report_webhooks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_report_webhooks_state"), ["state"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("report_webhooks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_report_webhooks_state"))
    op.drop_table("report_webhooks")
    with op.batch_alter_table("report_runs", schema=None) as batch_op:
        batch_op.drop_column("topic_prefix")
    with op.batch_alter_table("report_schedules", schema=None) as batch_op:
        for name in ("topology", "webhook_url", "on_change", "topic_prefix", "time_zone"):
            batch_op.drop_column(name)
