"""second factors of users

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

The release before asks no user for a code.

Revision: 0014, after 0013, 2026-11-23 13:55:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("totp_secret", sa.String(length=255), nullable=True))
    op.add_column("users", sa.Column("totp_last_step", sa.BigInteger(), nullable=True))
    op.add_column("users", sa.Column("recovery_digests", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("users", "recovery_digests")
    op.drop_column("users", "totp_last_step")
    op.drop_column("users", "totp_secret")
