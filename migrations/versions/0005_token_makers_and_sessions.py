"""token makers, what a session says of itself, one way in, counted audit events

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

A token whose maker is known by name gets that maker; one whose maker is gone is revoked, but for the one of the
environment, which nobody made.

Revision: 0005, after 0004, 2026-11-22 06:20:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("api_tokens", schema=None) as batch_op:
        batch_op.add_column(sa.Column("maker_id", ID, nullable=True))
        batch_op.add_column(sa.Column("parent_id", ID, nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_api_tokens_maker_id_users"), "users", ["maker_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_api_tokens_parent_id_api_tokens"), "api_tokens", ["parent_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_index(batch_op.f("ix_api_tokens_maker_id"), ["maker_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_api_tokens_parent_id"), ["parent_id"], unique=False)
    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.add_column(sa.Column("user_agent", sa.String(length=255), server_default="", nullable=False))
        batch_op.add_column(sa.Column("opened_by", sa.String(length=16), server_default="password", nullable=False))
    with op.batch_alter_table("login_links", schema=None) as batch_op:
        batch_op.add_column(sa.Column("is_way_in", sa.Boolean(), server_default=sa.false(), nullable=False))
    with op.batch_alter_table("audit_events", schema=None) as batch_op:
        batch_op.add_column(sa.Column("count", sa.Integer(), server_default="1", nullable=False))
    op.execute("""
        UPDATE api_tokens SET maker_id = (SELECT users.id FROM users WHERE users.name = api_tokens.created_by)
    """)
    op.execute("""
        UPDATE api_tokens SET parent_id =
            (SELECT parents.id FROM api_tokens AS parents WHERE 'token:' || parents.name = api_tokens.created_by)
    """)
    op.execute("""
        UPDATE api_tokens SET revoked_at = CURRENT_TIMESTAMP
        WHERE maker_id IS NULL AND parent_id IS NULL AND revoked_at IS NULL AND name <> 'environment'
    """)


def downgrade() -> None:
    with op.batch_alter_table("audit_events", schema=None) as batch_op:
        batch_op.drop_column("count")
    with op.batch_alter_table("login_links", schema=None) as batch_op:
        batch_op.drop_column("is_way_in")
    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.drop_column("opened_by")
        batch_op.drop_column("user_agent")
    with op.batch_alter_table("api_tokens", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_api_tokens_parent_id"))
        batch_op.drop_index(batch_op.f("ix_api_tokens_maker_id"))
        batch_op.drop_constraint(batch_op.f("fk_api_tokens_parent_id_api_tokens"), type_="foreignkey")
        batch_op.drop_constraint(batch_op.f("fk_api_tokens_maker_id_users"), type_="foreignkey")
        batch_op.drop_column("parent_id")
        batch_op.drop_column("maker_id")
