"""elections of very many partitions

Rules: the release before must still run on the new schema; lock briefly; name every constraint; SQLite alters a table
only through op.batch_alter_table.

Revision: 0020, after 0019, 2026-11-23 17:50:00
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "long_elections",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("cluster", sa.String(length=32), server_default="", nullable=False),
        sa.Column("election", sa.String(length=16), nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("partitions", sa.JSON(), nullable=False),
        sa.Column("leaders_before", sa.JSON(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("metadata_offset", sa.BigInteger(), nullable=True),
        sa.Column("waits_for", sa.Text(), nullable=False),
        sa.Column("stopped_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_long_elections")),
    )
    op.create_index(op.f("ix_long_elections_cluster"), "long_elections", ["cluster"], unique=False)
    op.create_table(
        "election_refusals",
        sa.Column("election_id", sa.String(length=32), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("refused", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["election_id"],
            ["long_elections.id"],
            name=op.f("fk_election_refusals_election_id_long_elections"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("election_id", "done", name=op.f("pk_election_refusals")),
    )


def downgrade() -> None:
    op.drop_table("election_refusals")
    op.drop_table("long_elections")
