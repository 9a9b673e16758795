"""several clusters

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0015, after 0014, 2026-11-23 13:40:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLES = ("audit_events", "plans", "quorum_epochs", "report_runs", "report_schedules")


def upgrade() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("bootstrap_controllers", sa.String(length=2048), nullable=False),
        sa.Column("command_config", sa.String(length=255), nullable=False),
        sa.Column("color", sa.String(length=16), nullable=False),
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("changed_by", sa.String(length=255), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sa.UniqueConstraint("cluster_id", name=op.f("uq_clusters_cluster_id")),
        sa.UniqueConstraint("key", name=op.f("uq_clusters_key")),
    )
    for table in TABLES:
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.add_column(sa.Column("cluster", sa.String(length=32), server_default="", nullable=False))
            batch_op.create_index(batch_op.f(f"ix_{table}_cluster"), ["cluster"], unique=False)
    with op.batch_alter_table("report_schedules", schema=None) as batch_op:
        batch_op.drop_constraint("uq_report_schedules_name", type_="unique")
        batch_op.create_unique_constraint(batch_op.f("uq_report_schedules_cluster"), ["cluster", "name"])


def downgrade() -> None:
    with op.batch_alter_table("report_schedules", schema=None) as batch_op:
        batch_op.drop_constraint("uq_report_schedules_cluster", type_="unique")
        batch_op.create_unique_constraint(batch_op.f("uq_report_schedules_name"), ["name"])
    for table in reversed(TABLES):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.drop_index(batch_op.f(f"ix_{table}_cluster"))
            batch_op.drop_column("cluster")
    op.drop_table("clusters")
