"""Keys that were revoked, alone or with their tenant: never to be taken again."""

import sqlalchemy as sa
from alembic import op

revision = "v2"
down_revision = "v1"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "ended_key",
        sa.Column("key_hash", sa.String(64), primary_key=True),
        sa.Column("ended_s", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop it again."""
    op.drop_table("ended_key")
