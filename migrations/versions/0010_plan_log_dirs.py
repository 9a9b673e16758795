"""log directories and progress in bytes of plans

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0010, after 0009, 2026-11-22 20:10:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("drain_log_dirs", sa.JSON(), nullable=True))
    op.add_column("plan_partitions", sa.Column("log_dirs", sa.JSON(), nullable=True))
    op.add_column("plan_partitions", sa.Column("original_log_dirs", sa.JSON(), nullable=True))
    op.add_column("plan_partitions", sa.Column("copied_bytes", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("plan_partitions") as table:
        table.drop_column("copied_bytes")
        table.drop_column("original_log_dirs")
        table.drop_column("log_dirs")
    with op.batch_alter_table("plans") as table:
        table.drop_column("drain_log_dirs")
