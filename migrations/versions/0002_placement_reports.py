"""placement reports

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0002, after 0001, 2026-11-21 10:10:27.978398
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "report_schedules",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("cron", sa.String(length=128), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("changed_by", sa.String(length=255), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report_schedules")),
        sa.UniqueConstraint("name", name=op.f("uq_report_schedules_name")),
    )
    op.create_table(
        "report_runs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("schedule_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("requested_by", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cluster_id", sa.String(length=64), nullable=True),
        sa.Column("image_offset", sa.BigInteger(), nullable=True),
        sa.Column("image_epoch", sa.Integer(), nullable=True),
        sa.Column("process_id", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.CheckConstraint(
            "state in ('queued', 'snapshotting', 'running', 'storing', 'succeeded', 'failed', 'cancelled', "
            "'timed_out', 'lost')",
            name=op.f("ck_report_runs_state"),
        ),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["report_schedules.id"],
            name=op.f("fk_report_runs_schedule_id_report_schedules"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report_runs")),
        sa.UniqueConstraint("schedule_id", "planned_at", name=op.f("uq_report_runs_schedule_id")),
    )
    with op.batch_alter_table("report_runs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_report_runs_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_report_runs_state"), ["state"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("report_runs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_report_runs_state"))
        batch_op.drop_index(batch_op.f("ix_report_runs_created_at"))

    op.drop_table("report_runs")
    op.drop_table("report_schedules")
