"""A tenant as administrators read and write it: JSON, every value checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from eunomia.core.data import Json
from eunomia.core.errors import ConfigError
from eunomia.serving.models.folder import NAME
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.workload.tenant import Slo

LIMITS = {
    "weight": float,
    "rate_per_s": float,
    "burst": float,
    "max_concurrency": int,
    "max_queue": int,
    "max_request_bytes": int,
    "max_block_s": float,
    "device_s_per_day": float,
}
OR_ZERO = ("max_block_s",)
MOST = {"max_concurrency": 10**6, "max_queue": 10**6, "max_request_bytes": 2**40}
ANY = 10**15  # below it, every number is one of a float and of either database
PROMISE = frozenset({"deadline_s", "min_deadline_s", "priority", "slo"})
SLO = {"target": float, "kind": str, "percentile": float, "window_requests": int, "window_s": float}
MAX_NAME = 80


FORMERLY = "promises"  # the key of objectives in earlier versions; it is still read


def is_name(name: str) -> bool:
    """Whether a tenant may be called so."""
    return len(name) <= MAX_NAME and NAME.fullmatch(name) is not None


def read_grant(name: str, content: Json) -> Grant:
    """A grant from JSON, checked; raises BadRequest."""
    if not is_name(name):
        raise BadRequest(
            f"tenant {name!r:.100}: letters, digits, '.', '_' and '-' make a name, at most {MAX_NAME}"
        )
    only(content, *LIMITS, "name", "role", "models", "objectives", FORMERLY, what="a tenant")
    if content.get("name", name) != name:
        raise BadRequest(f"the body is of tenant {content['name']!r:.100}, the address of '{name}'")
    role = content.get("role", "tenant")
    if role not in ("tenant", "admin"):
        raise BadRequest(f"role is {role!r:.50}; it is 'tenant' or 'admin'")
    limits: dict[str, Any] = {
        key: number(content, key, whole=kind is int, or_zero=key in OR_ZERO, most=MOST.get(key, ANY))
        for key, kind in LIMITS.items()
        if content.get(key) is not None
    }
    models = content.get("models")
    if models is not None and not isinstance(models, list):
        raise BadRequest("models must be a list of names, or null for all")
    if "objectives" in content and FORMERLY in content:
        raise BadRequest(f"{FORMERLY} is the former name of objectives; give one of the two")
    agreed = content.get("objectives", content.get(FORMERLY, {}))
    if not isinstance(agreed, dict):
        raise BadRequest(
            "objectives must be an object: network -> {deadline_s, min_deadline_s, priority, slo}"
        )
    return Grant(
        name,
        role,
        models=None if models is None else frozenset(map(_model, models)),
        promises={
            model if model == "*" else _model(model): _promise(model, p) for model, p in agreed.items()
        },
        **limits,
    )


def as_json(grant: Grant) -> Json:
    """A grant as administrators see it."""
    return {
        "name": grant.name,
        "role": grant.role,
        **{key: _shown(getattr(grant, key)) for key in LIMITS},
        "models": None if grant.models is None else sorted(grant.models),
        "objectives": {
            model: {
                "deadline_s": p.deadline_s,
                "min_deadline_s": p.min_deadline_s,
                "priority": p.priority,
                "slo": {key: getattr(p.slo, key) for key in SLO} if p.slo else None,
            }
            for model, p in grant.promises.items()
        },
    }


def _shown(limit: float | None) -> float | None:
    """As JSON has it: null = none."""
    return None if limit is None or math.isinf(limit) else limit


def only(content: Mapping[str, object], *known: str, what: str) -> Mapping[str, object]:
    """The same; raises BadRequest for a name that would have no effect: a slip of the pen costs keys here."""
    for name, value in content.items():
        if name not in known:
            takes = ", ".join(sorted(known)) or "no body"
            raise BadRequest(f"unknown key {name!r:.50} ({value!r:.50}); {what} takes {takes}")
    return content


def number(
    content: Mapping[str, object], key: str, *, whole: bool = False, or_zero: bool = False, most: float = ANY
) -> float | None:
    """A number above 0 (``or_zero``: from 0), None where it is not given; raises BadRequest."""
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, int if whole else int | float) and not isinstance(value, bool):
        least_fits = value >= 0 if or_zero else value > 0
        if least_fits and value <= most:
            return value
    kind = "whole number" if whole else "number"
    wanted = f"a {kind} from {0 if or_zero else 1} to {most}" if whole else f"a positive {kind}"
    if or_zero and not whole:
        wanted = f"0 or {wanted}"
    raise BadRequest(f"{key} is {value!r:.50}; {wanted} is expected")


def _model(name: object) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadRequest(
            f"{name!r:.110} is no name of a model: letters, digits, '.', '_' and '-', at most 100"
        )
    return name


def _promise(model: str, content: object) -> Promise:
    whose = f"objective for '{model[:100]}'"
    if not isinstance(content, dict):
        raise BadRequest(
            f"{whose} is {content!r:.50}: an object with {', '.join(sorted(PROMISE))} is expected"
        )
    if unknown := sorted(set(content) - PROMISE):
        takes = f"it takes {', '.join(sorted(PROMISE))}: times in seconds"
        raise BadRequest(
            f"{whose} has the unknown key {unknown[0]!r:.50} ({content[unknown[0]]!r:.50}); {takes}"
        )
    deadline_s = number(content, "deadline_s")
    if deadline_s is None:
        raise BadRequest(f"{whose} has no deadline_s")
    min_deadline_s = number(content, "min_deadline_s", or_zero=True)
    if min_deadline_s is not None and min_deadline_s > deadline_s:
        raise BadRequest(
            f"{whose}: min_deadline_s ({min_deadline_s:g}) is the shortest deadline that a client may claim; it is at"
            f" most deadline_s ({deadline_s:g})"
        )
    slo = content.get("slo")
    return Promise(
        deadline_s,
        None if slo is None else _slo(model, slo),
        number(content, "priority") or 1.0,
        min_deadline_s,
    )


def _slo(model: str, content: object) -> Slo:
    whose = f"slo of '{model[:100]}'"
    if not isinstance(content, dict) or not set(content) <= set(SLO):
        raise BadRequest(f"{whose}: an object with {', '.join(SLO)} is expected")
    for key, kind in SLO.items():
        if key in content and kind is str and not isinstance(content[key], str):
            raise BadRequest(f"{whose}: {key} is {content[key]!r:.50}; a text is expected")
        if (
            key in content
            and kind is not str
            and number(content, key, whole=kind is int, or_zero=True) is None
        ):
            raise BadRequest(f"{whose}: {key} is null; leave it out")
    try:
        return Slo(**content)
    except (ConfigError, TypeError) as error:
        raise BadRequest(f"{whose}: {error}") from None
