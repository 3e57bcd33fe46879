"""Costs that a file gives, gaps included: what a measured cost table is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.workload.model import DnnModel


@dataclass(frozen=True)
class Entries:
    """Rows and columns as in ``CostTable``; nan in ``compute_s`` = not given, inf = the type cannot run the layer."""

    models: tuple[DnnModel, ...]
    types: tuple[str, ...]
    compute_s: Floats  # (rows, types)
    buffer_s: Floats
    dram_bytes: Floats
    energy_j: Floats
    link_bytes_s: Floats  # (types,)
    origin: tuple[str, ...]  # (types,)

    @property
    def latency_s(self) -> Floats:
        """(rows, types) isolated latency; nan = not given."""
        with np.errstate(invalid="ignore"):
            return np.maximum(np.maximum(self.compute_s, self.buffer_s), self.dram_bytes / self.link_bytes_s)
