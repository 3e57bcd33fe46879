"""Tenants, the networks that they may use, promises and API keys."""

import sqlalchemy as sa
from alembic import op

revision = "v1"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "tenant",
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("weight", sa.Float, nullable=False),
        sa.Column("rate_per_s", sa.Float),
        sa.Column("burst", sa.Float, nullable=False),
        sa.Column("max_concurrency", sa.Integer, nullable=False),
        sa.Column("max_queue", sa.Integer, nullable=False),
        sa.Column("max_request_bytes", sa.Integer, nullable=False),
        sa.Column("all_models", sa.Boolean, nullable=False),
        sa.CheckConstraint("role IN ('tenant', 'admin')", name="ck_tenant_role"),
        sa.CheckConstraint("weight > 0", name="ck_tenant_weight"),
    )
    op.create_table(
        "tenant_model",
        sa.Column(
            "tenant", sa.String(80), sa.ForeignKey("tenant.name", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("model", sa.String(100), primary_key=True),
    )
    op.create_table(
        "promise",
        sa.Column(
            "tenant", sa.String(80), sa.ForeignKey("tenant.name", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("model", sa.String(100), primary_key=True),
        sa.Column("deadline_s", sa.Float, nullable=False),
        sa.Column("priority", sa.Float, nullable=False),
        sa.Column("slo_kind", sa.String(30)),
        sa.Column("slo_target", sa.Float),
        sa.Column("slo_percentile", sa.Float),
        sa.Column("slo_window_requests", sa.Integer),
        sa.Column("slo_window_s", sa.Float),
    )
    op.create_table(
        "api_key",
        sa.Column("key_hash", sa.String(64), primary_key=True),
        sa.Column("tenant", sa.String(80), sa.ForeignKey("tenant.name", ondelete="CASCADE"), nullable=False),
        sa.Column("hint", sa.String(12), nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float),
    )
    op.create_index("ix_api_key_tenant", "api_key", ["tenant"])


def downgrade() -> None:
    """Drop them again."""
    for name in ("api_key", "promise", "tenant_model", "tenant"):
        op.drop_table(name)
