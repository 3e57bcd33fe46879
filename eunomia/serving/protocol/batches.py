"""Whether a network takes batches, as stock clients understand it, and how many rows a request may have."""

from __future__ import annotations

from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.strings import BYTES
from eunomia.serving.protocol.raw import nbytes

MOST_ROWS = 2**31 - 1  # what the protocol's field holds


def most_rows(ports: Ports, most_bytes: int) -> int:
    """Rows of the largest batch, as clients hear it; 0 = a network without batches, or whose rows have no one size."""
    row = _row_bytes(ports)
    return min(most_bytes // row, ports.get("most_rows") or MOST_ROWS) if row else 0


def has_batches(ports: Ports) -> bool:
    """Whether clients hear that it does."""
    return _row_bytes(ports) > 0


def _row_bytes(ports: Ports) -> int:
    if not all(p["shape"][:1] == [-1] for p in (*ports["inputs"], *ports["outputs"])):
        return 0
    if any(-1 in p["shape"][1:] or p["datatype"] == BYTES for p in ports["inputs"]):
        return 0
    return sum(nbytes(p["datatype"], p["shape"][1:]) for p in ports["inputs"])
