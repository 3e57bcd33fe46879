"""Dataflows by name: those of the package, entry points, files of one's own."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from eunomia.core.own_file import split_file
from eunomia.core.registry import Registry

BUILT_IN = ("row_stationary", "weight_stationary", "systolic_weight", "systolic_output")
# Names beside the built-in ones: a function of (nest, accelerator type) that gives mappings, or a class of such objects
DATAFLOWS = Registry("dataflow", "eunomia.dataflows", {})


def dataflow_names() -> list[str]:
    """All known dataflows, built-in first."""
    return [*BUILT_IN, *(name for name in DATAFLOWS.names() if name not in BUILT_IN)]


def is_dataflow(name: str) -> bool:
    """Whether a type may name it; a file is not read."""
    return name in BUILT_IN or name in DATAFLOWS or split_file(name) is not None


def beside(name: str, file: Path) -> str:
    """``FILE.py:NAME`` in a type's file is meant from its folder."""
    own = split_file(name)
    return name if own is None else f"{file.parent / own[0]}:{own[1]}"


def code_stamp(name: str) -> str:
    """Name and hash of a foreign dataflow's code, so that costs on disk never outlive it; empty for built-in ones."""
    if name in BUILT_IN:
        return ""
    own = split_file(name)
    if own is not None:
        return f"{own[1]} {_hash(own[0])}"
    entry = DATAFLOWS.plugins()[name]
    spec = find_spec(entry.value.partition(":")[0].strip())
    version = entry.dist.version if entry.dist is not None else ""
    return f"{name} {version} {_hash(Path(spec.origin)) if spec is not None and spec.origin else ''}"


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError:
        return "unreadable"  # said where it is loaded
