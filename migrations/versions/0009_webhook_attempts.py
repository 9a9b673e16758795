"""the time and the answer of a webhook's last attempt

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0009, after 0008, 2026-11-22 20:30:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("report_webhooks", schema=None) as batch_op:
        batch_op.add_column(sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("status", sa.Integer(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("report_webhooks", schema=None) as batch_op:
        batch_op.drop_column("status")
        batch_op.drop_column("sent_at")
