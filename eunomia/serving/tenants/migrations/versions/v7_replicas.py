"""What each of several servers has done, so that they keep one set of promises."""

import sqlalchemy as sa
from alembic import op

revision = "v7"
down_revision = "v6"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "replica",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("seen_s", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop it again."""
    op.drop_table("replica")
