"""Steps/s of a model that nobody has measured: a roofline per device and a ring to exchange gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from eunomia.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one worker does in one step: forward and backward pass over its own batch, then gradients.

    ``gflop`` (a multiply-add is two), ``dram_gb`` read and written, ``gradient_gb`` exchanged; ``utilisation``: part of
    the peak that the model's kernels reach, 0.3 to 0.5 for most convolutions and transformers.
    """

    gflop: float
    dram_gb: float = 0.0
    gradient_gb: float = 0.0
    utilisation: float = 0.4

    def __post_init__(self) -> None:
        _positive("work", "gflop", self.gflop)
        for name in ("dram_gb", "gradient_gb"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0.0):
                raise ConfigError(f"work: {name} is {getattr(self, name)}; it must be 0 or more")
        if not 0.0 < self.utilisation <= 1.0:
            raise ConfigError(f"work: utilisation is {self.utilisation}; it must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Peak:
    """What a device can do at most: arithmetic, memory, and links to devices of its server and of others, per s."""

    tflop: float
    dram_gb: float
    link_gb: float
    network_gb: float

    def __post_init__(self) -> None:
        for field in fields(self):
            _positive("peak", field.name, getattr(self, field.name))


def steps_per_s(work: StepWork, peak: Peak, workers: int = 1, spread: bool = False) -> float:
    """Steps/s of a gang, each worker's steps counted: workers / (max(arithmetic, memory) + exchange).

    ::

        arithmetic = gflop / (1000 utilisation tflop),   memory = dram_gb / dram_gb per s
        exchange   = 2 (w - 1) / w gradient_gb / link, the slowest link: the network where the gang is ``spread``

    Roofline: Williams, Waterman, Patterson 2009; ring all-reduce: Patarasuk, Yuan 2009. Exchange is not
    overlapped with the backward pass. It predicts the relative speed of device types better than speed
    itself: input pipelines, kernel launches and small batches cost what no peak shows, so it is too fast for
    small models.
    """
    alone_s = max(work.gflop / (1e3 * work.utilisation * peak.tflop), work.dram_gb / peak.dram_gb)
    link = peak.network_gb if spread else peak.link_gb
    return workers / (alone_s + 2.0 * (workers - 1) / workers * work.gradient_gb / link)


def _positive(what: str, name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0.0):
        raise ConfigError(f"{what}: {name} is {value}; it must be greater than 0")
