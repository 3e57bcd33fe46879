"""Reasons of decisions (policies/reasons.py) as columns of table ``decisions``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eunomia.core.arrays import Flags, Floats, Ints, Records
from eunomia.core.schemas import DECISIONS
from eunomia.inference.policies.reasons import BY, FATES, Reasons

NAMES = (
    "decided_by",
    "score",
    "score_base",
    "score_network",
    "terms",
    "place_margin",
    "start_margin",
    "bandwidth_used",
    "rivals",
    "held",
)


def reason_columns(reasons: Reasons | None, count: int) -> dict[str, pa.Array]:
    """Columns for the first ``count`` decisions; null without reasons, and where nothing was noted."""
    if reasons is None:
        return {name: pa.nulls(count, DECISIONS.field(name).type) for name in NAMES}
    rows, features = reasons.rows[:count], reasons.scored
    noted = rows["by"] >= 0
    return {
        "decided_by": pa.DictionaryArray.from_arrays(pa.array(rows["by"], pa.int32(), mask=~noted), list(BY)),
        "score": _numbers(rows["score"], noted),
        "score_base": _numbers(rows["base"], noted),
        "score_network": _numbers(rows["network"], noted),
        "terms": _terms(features, _triple(rows, "", np.ones(len(rows), np.bool_)), noted),
        "place_margin": _numbers(rows["place_margin"], noted),
        "start_margin": _numbers(rows["start_margin"], noted),
        "bandwidth_used": _numbers(rows["used"], noted),
        "rivals": _rivals(rows, features, noted),
        "held": _held(rows, reasons.held, noted),
    }


def _rivals(rows: Records, features: tuple[str, ...], noted: Flags) -> pa.Array:
    there = (rows["rival_request"] >= 0) & noted[:, None]
    wanted = rows["rival_wanted"][there]
    values = {
        "request": rows["rival_request"][there],
        "layer": rows["rival_layer"][there],
        "fate": _names(FATES, rows["rival_fate"][there]),
        "wanted": pa.array(wanted, pa.int32(), mask=wanted < 0),
        "late": rows["rival_late"][there] != 0,
        "score": rows["rival_score"][there],
        "terms": _terms(features, _triple(rows, "rival_", there), np.ones(len(wanted), np.bool_)),
    }
    return _lists(there, _structs(DECISIONS.field("rivals").type.value_type, values), noted)


def _held(rows: Records, features: tuple[str, ...], noted: Flags) -> pa.Array:
    there = (rows["held_request"] >= 0) & noted
    values = {
        "request": rows["held_request"],
        "layer": rows["held_layer"],
        "time_s": rows["held_s"],
        "margin": rows["held_margin"],
        "bandwidth_used": rows["held_used"],
        "terms": _terms(features, _triple(rows, "held_", np.ones(len(rows), np.bool_)), there),
    }
    return _structs(DECISIONS.field("held").type, values, pa.array(~there))


def _triple(rows: Records, prefix: str, there: Flags) -> tuple[Ints, Floats, Floats]:
    """Features, weights and values of the terms in columns that begin with ``prefix``."""
    return rows[f"{prefix}feature"][there], rows[f"{prefix}weight"][there], rows[f"{prefix}value"][there]


def _terms(features: tuple[str, ...], terms: tuple[Ints, Floats, Floats], noted: Flags) -> pa.Array:
    """(n, width) terms as n lists; null where nothing was noted."""
    feature, weight, value = terms
    there = (feature >= 0) & noted[:, None]
    values = {"feature": _names(features, feature[there]), "weight": weight[there], "value": value[there]}
    return _lists(there, _structs(DECISIONS.field("terms").type.value_type, values), noted)


def _structs(kind: pa.DataType, values: dict[str, object], mask: pa.Array | None = None) -> pa.Array:
    arrays = [_as(values[field.name], field.type) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _lists(there: Flags, values: pa.Array, noted: Flags) -> pa.Array:
    """(n, width) which places are filled, and what fills them in turn, as n lists; null where nothing was noted."""
    offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=pa.array(~noted))


def _names(names: tuple[str, ...], indices: Ints) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(indices, pa.int64()))


def _numbers(values: Floats, noted: Flags) -> pa.Array:
    return pa.array(values, pa.float64(), mask=~noted | ~np.isfinite(values))


def _as(values: object, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
