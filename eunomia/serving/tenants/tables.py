"""The tables behind tenants, in SQLite or PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"}
)

TENANT = Table(
    "tenant",
    METADATA,
    Column("name", String(80), primary_key=True),
    Column(
        "role",
        String(10),
        CheckConstraint("role IN ('tenant', 'admin')", name="ck_tenant_role"),
        nullable=False,
    ),
    Column("weight", Float, CheckConstraint("weight > 0", name="ck_tenant_weight"), nullable=False),
    Column("rate_per_s", Float),  # null = unlimited
    Column("burst", Float, nullable=False),
    Column("max_concurrency", Integer, nullable=False),
    Column("max_queue", Integer, nullable=False),
    Column("max_request_bytes", BigInteger, nullable=False),
    Column("all_models", Boolean, nullable=False),
    Column("max_block_s", Float),  # null = the server's, 0 = any
    Column("device_s_per_day", Float),  # null = unlimited
)

MODEL = Table(
    "tenant_model",
    METADATA,
    Column("tenant", String(80), ForeignKey("tenant.name", ondelete="CASCADE"), primary_key=True),
    Column("model", String(100), primary_key=True),
)

PROMISE = Table(
    "promise",
    METADATA,
    Column("tenant", String(80), ForeignKey("tenant.name", ondelete="CASCADE"), primary_key=True),
    Column("model", String(100), primary_key=True),  # "*" = every other
    Column("deadline_s", Float, nullable=False),
    Column("priority", Float, nullable=False),
    Column("slo_kind", String(30)),  # null = nothing was promised over many requests
    Column("slo_target", Float),
    Column("slo_percentile", Float),
    Column("slo_window_requests", Integer),
    Column("slo_window_s", Float),
    Column("min_deadline_s", Float),  # null = deadline_s
)

API_KEY = Table(
    "api_key",
    METADATA,
    Column("key_hash", String(64), primary_key=True),
    Column("tenant", String(80), ForeignKey("tenant.name", ondelete="CASCADE"), nullable=False, index=True),
    Column("hint", String(12), nullable=False),  # its first letters, to tell keys apart in a list
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float),  # null = never
)

ENDED_KEY = Table(  # outlives the tenant, so that a key whose hash stands in a file as well never comes back
    "ended_key",
    METADATA,
    Column("key_hash", String(64), primary_key=True),
    Column("ended_s", Float, nullable=False),
)

STAMP = Table(  # one row, which differs after every change
    "directory_stamp",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1", name="ck_directory_stamp_one"), primary_key=True),
    Column("stamp", String(32), nullable=False),
)

REPLICA = Table(  # one row per server that shares the promises: what it has done so far
    "replica",
    METADATA,
    Column("name", String(200), primary_key=True),
    Column("content", Text, nullable=False),  # JSON, of board.py
    Column("seen_s", Float, nullable=False),
    Column("member_of", String(80), nullable=False, server_default=""),  # its group
)

REPLICA_GROUP = Table(  # one row per group of servers: what its members have done together
    "replica_group",
    METADATA,
    Column("name", String(80), primary_key=True),
    Column("beat", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Column("parts", Text, nullable=False),  # of which totals of which members that is the sum
    Column("seen_s", Float, nullable=False),
)
