"""The shortest deadline that a client may claim, by promise; null = what was promised."""

import sqlalchemy as sa
from alembic import op

revision = "v3"
down_revision = "v2"


def upgrade() -> None:
    """Add the column."""
    op.add_column("promise", sa.Column("min_deadline_s", sa.Float))


def downgrade() -> None:
    """Drop it again."""
    with op.batch_alter_table("promise") as table:
        table.drop_column("min_deadline_s")
