"""How accelerators may share memory bandwidth: every contention model once.

One file of this folder holds a model's formula twice: compiled, for the event loop, and plain, for the reference
engine. Codes of the event loop, choices of a scenario file, what learned policies see and the formulas in
docs/engine.md follow from this table.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Literal, TypeAlias

from eunomia.contract.contention.model import ContentionModel


def _models(table: dict[str, str]) -> dict[str, ContentionModel]:
    found = {}
    for name, path in table.items():
        module, _, attribute = path.partition(":")
        found[name] = getattr(importlib.import_module(module), attribute)
    return found


CONTENTION: dict[str, ContentionModel] = _models(
    {
        "none": "eunomia.contract.contention.none:NONE",
        "proportional": "eunomia.contract.contention.proportional:PROPORTIONAL",
        "max_min": "eunomia.contract.contention.max_min:MAX_MIN",
        "weighted": "eunomia.contract.contention.weighted:WEIGHTED",
        "moca_literal": "eunomia.contract.contention.weighted:MOCA_LITERAL",
        "roofline": "eunomia.contract.contention.roofline:ROOFLINE",
        "roofline_proportional": "eunomia.contract.contention.roofline:ROOFLINE_PROPORTIONAL",
        "roofline_static": "eunomia.contract.contention.roofline:ROOFLINE_STATIC",
        "matrix": "eunomia.contract.contention.matrix:MATRIX",
    }
)

if TYPE_CHECKING:
    Contention: TypeAlias = str
else:
    Contention = Literal[tuple(CONTENTION)]
