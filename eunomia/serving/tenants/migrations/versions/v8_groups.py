"""Servers in groups: each row names its group, and a group has a row of totals."""

import sqlalchemy as sa
from alembic import op

revision = "v8"
down_revision = "v7"


def upgrade() -> None:
    """Add the column, with "" for servers that name no group, and the table."""
    op.add_column("replica", sa.Column("member_of", sa.String(80), nullable=False, server_default=""))
    op.create_table(
        "replica_group",
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("beat", sa.Integer, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("parts", sa.Text, nullable=False),
        sa.Column("seen_s", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop both again."""
    op.drop_table("replica_group")
    op.drop_column("replica", "member_of")
