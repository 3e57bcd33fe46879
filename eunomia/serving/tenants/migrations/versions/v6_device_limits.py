"""What a tenant's requests may hold a device for at a time and in a day; null = the server's rule, and no bound."""

import sqlalchemy as sa
from alembic import op

revision = "v6"
down_revision = "v5"
COLUMNS = ("max_block_s", "device_s_per_day")


def upgrade() -> None:
    """Add the columns."""
    for name in COLUMNS:
        op.add_column("tenant", sa.Column(name, sa.Float))


def downgrade() -> None:
    """Drop them again."""
    with op.batch_alter_table("tenant") as table:
        for name in COLUMNS:
            table.drop_column(name)
