"""Requests of 2 GiB and more: PostgreSQL's whole numbers end there, SQLite's do not."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v5"
down_revision = "v4"


def upgrade() -> None:
    """Widen the column; not in SQLite, where the table would be written anew for nothing."""
    _become(sa.BigInteger())


def downgrade() -> None:
    """Narrow it again."""
    _become(sa.Integer())


def _become(kind: sa.types.TypeEngine[int]) -> None:
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("tenant", "max_request_bytes", type_=kind, existing_nullable=False)
