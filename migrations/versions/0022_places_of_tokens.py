"""tokens that are valid in one cluster only, or for some of its topics

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0022, after 0021, 2026-11-23 19:00:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("api_tokens") as batch_op:
        batch_op.add_column(sa.Column("cluster", sa.String(length=32), nullable=True))
        batch_op.add_column(sa.Column("topic_prefix", sa.String(length=249), server_default="", nullable=False))


def downgrade() -> None:
    op.execute("delete from api_tokens where cluster is not null")  # they would be valid everywhere
    with op.batch_alter_table("api_tokens") as batch_op:
        batch_op.drop_column("topic_prefix")
        batch_op.drop_column("cluster")
