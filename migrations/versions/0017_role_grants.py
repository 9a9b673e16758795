"""roles in one cluster and for a prefix of topics

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0017, after 0016, 2026-11-23 14:35:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

BEFORE = "role in ('viewer', 'editor', 'admin')"
AFTER = "role in ('none', 'viewer', 'editor', 'admin')"


def upgrade() -> None:
    _check_roles(AFTER)
    big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "role_grants",
        sa.Column("id", big, autoincrement=True, nullable=False),
        sa.Column("user_id", big, nullable=False),
        sa.Column("cluster", sa.String(length=32), server_default="", nullable=False),
        sa.Column("topic_prefix", sa.String(length=249), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.CheckConstraint(BEFORE, name=op.f("ck_role_grants_role")),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_role_grants_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_role_grants")),
        sa.UniqueConstraint("user_id", "cluster", "topic_prefix", name=op.f("uq_role_grants_user_id")),
    )
    op.create_index(op.f("ix_role_grants_user_id"), "role_grants", ["user_id"], unique=False)
    op.create_index(op.f("ix_role_grants_cluster"), "role_grants", ["cluster"], unique=False)


def downgrade() -> None:
    op.drop_table("role_grants")
    op.execute("DELETE FROM users WHERE role = 'none'")
    _check_roles(BEFORE)


def _check_roles(condition: str) -> None:
    with op.batch_alter_table("users") as batch_op:
        batch_op.drop_constraint(op.f("ck_users_role"), type_="check")
        batch_op.create_check_constraint(op.f("ck_users_role"), condition)
