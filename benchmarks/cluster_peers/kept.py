"""Figures of single runs kept in runs/cluster_peers, so that a study that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import eunomia.cluster
from eunomia.core.atomic import write_bytes

FOLDER = Path("runs") / "cluster_peers"


@cache
def _program() -> str:
    """Digest of the sources of the cluster wing and of these studies."""
    digest = hashlib.sha256()
    folders = (Path(eunomia.cluster.__file__).parent, Path(__file__).parent)
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kept(what: Mapping[str, Any], compute: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What was computed for ``what`` (anything JSON can say) with the present program, or is computed now and kept."""
    text = json.dumps({**what, "program": _program()}, sort_keys=True)
    place = FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
    if place.exists():
        found: dict[str, float] = json.loads(place.read_text(encoding="utf-8"))
        return found
    made = compute()
    place.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(place, json.dumps(made).encode())
    return made
