"""Wrong costs on purpose: does a conclusion survive errors as large as the cost model's own?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.hardware.table import CostTable


def perturb(table: CostTable, factor: float, rng: np.random.Generator) -> CostTable:
    """A table whose latencies are multiplied by U(1 - factor, 1 + factor), independently per (layer, type).

    Compute time, buffer time and DRAM bytes are scaled alike. So the latency is scaled exactly at any DRAM
    share, and the demand b stays as it was. Equal layers of one network are perturbed apart.
    """
    if not 0.0 <= factor < 1.0:
        raise ConfigError(f"the perturbation is {factor}; give a share between 0 and 1, such as 0.5")
    scale = rng.uniform(1.0 - factor, 1.0 + factor, table.compute_s.shape)
    return replace(
        table,
        compute_s=table.compute_s * scale,
        buffer_s=table.buffer_s * scale,
        dram_bytes=table.dram_bytes * scale,
    )
