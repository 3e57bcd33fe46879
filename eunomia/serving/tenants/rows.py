"""Grants as rows, and rows as grants."""

from __future__ import annotations

import math

from sqlalchemy import Connection, Row, delete, insert, select

from eunomia.core.data import Json
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.serving.tenants.tables import MODEL, PROMISE, TENANT
from eunomia.workload.tenant import Slo


def read_grants(db: Connection) -> dict[str, Grant]:
    """Every tenant, by name."""
    models: dict[str, set[str]] = {}
    for row in db.execute(select(MODEL)):
        models.setdefault(row.tenant, set()).add(row.model)
    promises: dict[str, dict[str, Promise]] = {}
    for row in db.execute(select(PROMISE)):
        promises.setdefault(row.tenant, {})[row.model] = _promise(row)
    return {
        row.name: _grant(row, models.get(row.name, set()), promises.get(row.name, {}))
        for row in db.execute(select(TENANT))
    }


def knows(db: Connection, tenant: str) -> bool:
    """Whether there is a tenant of this name."""
    return db.execute(select(TENANT.c.name).where(TENANT.c.name == tenant)).first() is not None


def write_grant(db: Connection, grant: Grant) -> None:
    """Add a tenant, or replace all that it was granted."""
    row = _tenant_row(grant)
    if knows(db, grant.name):
        db.execute(TENANT.update().where(TENANT.c.name == grant.name).values(row))
        _forget_details(db, grant.name)
    else:
        db.execute(insert(TENANT).values(row))
    for model in sorted(grant.models or ()):
        db.execute(insert(MODEL).values(tenant=grant.name, model=model))
    for model, promise in grant.promises.items():
        db.execute(insert(PROMISE).values(_promise_row(grant.name, model, promise)))


def delete_grant(db: Connection, tenant: str) -> bool:
    """Forget a tenant that has no keys any more; False when there is none."""
    _forget_details(db, tenant)
    return db.execute(delete(TENANT).where(TENANT.c.name == tenant)).rowcount > 0


def _forget_details(db: Connection, tenant: str) -> None:
    for table in (PROMISE, MODEL):
        db.execute(delete(table).where(table.c.tenant == tenant))


def _grant(row: Row[tuple[object, ...]], models: set[str], promises: dict[str, Promise]) -> Grant:
    return Grant(
        row.name,
        row.role,
        row.weight,
        math.inf if row.rate_per_s is None else row.rate_per_s,
        row.burst,
        row.max_concurrency,
        row.max_queue,
        row.max_request_bytes,
        None if row.all_models else frozenset(models),
        promises,
        row.max_block_s,
        math.inf if row.device_s_per_day is None else row.device_s_per_day,
    )


def _promise(row: Row[tuple[object, ...]]) -> Promise:
    slo = None
    if row.slo_kind is not None:
        slo = Slo(row.slo_target, row.slo_kind, row.slo_percentile, row.slo_window_requests, row.slo_window_s)
    return Promise(row.deadline_s, slo, row.priority, row.min_deadline_s)


def _tenant_row(grant: Grant) -> Json:
    return {
        "name": grant.name,
        "role": grant.role,
        "weight": grant.weight,
        "rate_per_s": grant.rate_per_s if math.isfinite(grant.rate_per_s) else None,
        "burst": grant.burst,
        "max_concurrency": grant.max_concurrency,
        "max_queue": grant.max_queue,
        "max_request_bytes": grant.max_request_bytes,
        "all_models": grant.models is None,
        "max_block_s": grant.max_block_s,
        "device_s_per_day": grant.device_s_per_day if math.isfinite(grant.device_s_per_day) else None,
    }


def _promise_row(tenant: str, model: str, promise: Promise) -> Json:
    slo = promise.slo
    return {
        "tenant": tenant,
        "model": model,
        "deadline_s": promise.deadline_s,
        "priority": promise.priority,
        "slo_kind": slo.kind if slo else None,
        "slo_target": slo.target if slo else None,
        "slo_percentile": slo.percentile if slo else None,
        "slo_window_requests": slo.window_requests if slo else None,
        "slo_window_s": slo.window_s if slo else None,
        "min_deadline_s": promise.min_deadline_s,
    }
