"""quorum epochs

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0003, after 0002, 2026-11-21 14:47:25.270658
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "quorum_epochs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("leader_id", sa.Integer(), nullable=False),
        sa.Column("start_offset", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("voter_ids", sa.JSON(), nullable=False),
        sa.Column("granting_voter_ids", sa.JSON(), nullable=False),
        sa.Column("last_offset", sa.BigInteger(), nullable=False),
        sa.Column("last_timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("leaderless_ms", sa.BigInteger(), nullable=False),
        sa.Column("lost_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("lost_how", sa.String(length=16), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quorum_epochs")),
        sa.UniqueConstraint("cluster_id", "epoch", name=op.f("uq_quorum_epochs_cluster_id")),
    )


def downgrade() -> None:
    op.drop_table("quorum_epochs")
