"""executed plans

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0006, after 0005, 2026-11-22 16:44:33.607988
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "plans",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("made_by", sa.String(length=255), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("approved_by", sa.String(length=255), nullable=True),
        sa.Column("approved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_by", sa.String(length=255), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancelled_by", sa.String(length=255), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("throttle", sa.BigInteger(), nullable=True),
        sa.Column("moves_per_broker", sa.Integer(), nullable=False),
        sa.Column("pause_on_under_min", sa.Boolean(), nullable=False),
        sa.Column("stuck_minutes", sa.Integer(), nullable=False),
        sa.Column("drain", sa.JSON(), nullable=False),
        sa.Column("unregister", sa.Boolean(), nullable=False),
        sa.Column("cancel_begun", sa.String(length=8), nullable=True),
        sa.Column("known_under_min", sa.JSON(), nullable=True),
        sa.Column("metadata_offset", sa.BigInteger(), nullable=False),
        sa.Column("elected", sa.Boolean(), nullable=False),
        sa.Column("ending", sa.String(length=16), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("waits_for", sa.Text(), nullable=True),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state in ('draft', 'approved', 'running', 'paused', 'cancelling', 'done', 'failed', 'cancelled')",
            name=op.f("ck_plans_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
    )
    with op.batch_alter_table("plans", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_plans_cluster_id"), ["cluster_id", "state"], unique=False)

    op.create_table(
        "plan_partitions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("plan_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("topic", sa.String(length=249), nullable=False),
        sa.Column("topic_id", sa.String(length=22), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("original", sa.JSON(), nullable=False),
        sa.Column("proposed", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("caught_up", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state in ('pending', 'beginning', 'moving', 'undoing', 'moved', 'unchanged', 'stale', 'failed', 'undone', "
            "'skipped')",
            name=op.f("ck_plan_partitions_state"),
        ),
        sa.ForeignKeyConstraint(
            ["plan_id"], ["plans.id"], name=op.f("fk_plan_partitions_plan_id_plans"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan_partitions")),
        sa.UniqueConstraint("plan_id", "topic", "partition", name=op.f("uq_plan_partitions_plan_id")),
    )
    with op.batch_alter_table("plan_partitions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_plan_partitions_plan_id"), ["plan_id", "state"], unique=False)

    op.create_table(
        "plan_settings",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("plan_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("resource_type", sa.Integer(), nullable=False),
        sa.Column("resource_name", sa.String(length=249), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("ours", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["plan_id"], ["plans.id"], name=op.f("fk_plan_settings_plan_id_plans"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan_settings")),
        sa.UniqueConstraint("plan_id", "resource_type", "resource_name", "name", name=op.f("uq_plan_settings_plan_id")),
    )


def downgrade() -> None:
    op.drop_table("plan_settings")
    with op.batch_alter_table("plan_partitions", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_plan_partitions_plan_id"))

    op.drop_table("plan_partitions")
    with op.batch_alter_table("plans", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_plans_cluster_id"))

    op.drop_table("plans")
