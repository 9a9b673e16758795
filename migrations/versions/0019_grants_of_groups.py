"""roles in clusters that groups of an OpenID issuer give

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0019, after 0018, 2026-11-23 17:30:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

NAME = "uq_role_grants_user_id"
PLACE = ["user_id", "cluster", "topic_prefix"]


def upgrade() -> None:
    with op.batch_alter_table("role_grants") as batch_op:
        batch_op.add_column(sa.Column("from_group", sa.String(length=255), server_default="", nullable=False))
        batch_op.drop_constraint(op.f(NAME), type_="unique")
        batch_op.create_unique_constraint(op.f(NAME), [*PLACE, "from_group"])


def downgrade() -> None:
    op.execute("DELETE FROM role_grants WHERE from_group <> ''")
    with op.batch_alter_table("role_grants") as batch_op:
        batch_op.drop_constraint(op.f(NAME), type_="unique")
        batch_op.drop_column("from_group")
        batch_op.create_unique_constraint(op.f(NAME), PLACE)
