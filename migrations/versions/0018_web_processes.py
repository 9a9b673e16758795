"""shares of web processes in the limits per caller

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0018, after 0017, 2026-11-23 17:30:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "web_processes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("leased", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_web_processes")),
    )


def downgrade() -> None:
    op.drop_table("web_processes")
