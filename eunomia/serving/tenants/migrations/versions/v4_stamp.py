"""The mark of the last change, by which servers that share the database see that there was one."""

import sqlalchemy as sa
from alembic import op

revision = "v4"
down_revision = "v3"


def upgrade() -> None:
    """Create the table, and its only row."""
    table = op.create_table(
        "directory_stamp",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("stamp", sa.String(32), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_directory_stamp_one"),
    )
    op.bulk_insert(table, [{"id": 1, "stamp": "v4"}])


def downgrade() -> None:
    """Drop it again."""
    op.drop_table("directory_stamp")
