"""Settings chosen on validation traces, alike for all schedulers: ``prema+tuned``. Written by benchmarks/tuning.py."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from eunomia.core.errors import UnknownNameError

TUNED = Path(__file__).with_name("tuned.json")


def tuned_name(name: str) -> str:
    """The policy, settings and gate included, that ``name+tuned`` stands for. Raises UnknownNameError."""
    known = _choices()
    if name not in known:
        raise UnknownNameError("tuned policy", name, known)
    return known[name]


def tuned_names() -> list[str]:
    """Schedulers that have tuned settings."""
    return list(_choices())


@cache
def _choices() -> dict[str, str]:
    return {name: entry["policy"] for name, entry in json.loads(TUNED.read_text(encoding="utf-8")).items()}
