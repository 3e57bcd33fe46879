"""CUDA shared memory, which is not offered: nothing is registered, and to forget nothing is no error, as in Triton.

Tools ask for it whether they use it or not: ``perf_analyzer`` forgets all regions at its end.
"""

from __future__ import annotations

from eunomia.serving.protocol.errors import BadRequest, NotFound


def register(name: str) -> None:
    """Raises BadRequest."""
    raise BadRequest(
        f"CUDA shared memory region '{name[:100]}' cannot be registered: this server reads no GPU's memory; use system "
        "shared memory, or send the tensors"
    )


def look(name: str) -> None:
    """Of one region, or of all; raises NotFound."""
    if name:
        raise NotFound(f"no CUDA shared memory region '{name[:100]}' is registered")
