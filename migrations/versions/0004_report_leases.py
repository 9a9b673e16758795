"""report leases

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0004, after 0003, 2026-11-22 06:10:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("report_runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("cancelled_by", sa.String(length=255), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("report_runs", schema=None) as batch_op:
        batch_op.drop_column("cancelled_by")
        batch_op.drop_column("lease_until")
