"""kept forms

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0013, after 0012, 2026-11-23 13:45:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kept_forms",
        sa.Column("key_digest", sa.String(length=64), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key_digest", name=op.f("pk_kept_forms")),
    )
    op.create_index(op.f("ix_kept_forms_expires_at"), "kept_forms", ["expires_at"], unique=False)


def downgrade() -> None:
    op.drop_table("kept_forms")
