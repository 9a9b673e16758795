"""users of an OpenID issuer

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0012, after 0011, 2026-11-23 13:30:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("issuer", sa.String(length=512), nullable=True))
    op.add_column("users", sa.Column("subject", sa.String(length=255), nullable=True))
    op.add_column("users", sa.Column("role_lost_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(op.f("ix_users_issuer_subject"), "users", ["issuer", "subject"], unique=True)


def downgrade() -> None:
    op.drop_index(op.f("ix_users_issuer_subject"), table_name="users")
    op.drop_column("users", "role_lost_at")
    op.drop_column("users", "subject")
    op.drop_column("users", "issuer")
