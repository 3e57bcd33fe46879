"""Cost tables: what every layer costs on every accelerator type, terms kept apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.core.errors import PlatformError
from eunomia.workload.model import DnnModel


@dataclass(frozen=True)
class CostTable:
    """Costs of all layers of several models, one row per layer, one column per accelerator type.

    Row ``offsets[m] + i`` is layer i of ``models[m]``. ``inf`` in ``compute_s`` means that the type
    cannot run the layer. The isolated latency is the roof over the three terms,
    ``max(compute_s, buffer_s, dram_bytes / link_bytes_s)``; the simulator recomputes it under any
    DRAM share, which is why the terms are stored and not the result.
    """

    models: tuple[DnnModel, ...]
    types: tuple[str, ...]
    compute_s: Floats  # (rows, types) time on the array alone
    buffer_s: Floats  # (rows, types) time of traffic to and from the global buffer
    dram_bytes: Floats  # (rows, types)
    energy_j: Floats  # (rows, types)
    link_bytes_s: Floats  # (types,) DRAM bandwidth that one accelerator of the type can draw
    origin: tuple[str, ...] = field(default=())  # (types,) measured, model (version), imported, estimated
    size_of: tuple[int, ...] = ()  # (models,) the network that each is a size of: itself, or an earlier one

    def __post_init__(self) -> None:
        shape = (sum(len(m.layers) for m in self.models), len(self.types))
        for name in ("compute_s", "buffer_s", "dram_bytes", "energy_j"):
            value = np.ascontiguousarray(getattr(self, name), np.float64)
            object.__setattr__(self, name, value)
            if value.shape != shape:
                raise PlatformError(f"cost table: {name} has shape {value.shape}, expected {shape}")
            if np.isnan(value).any() or (value < 0.0).any():
                raise PlatformError(f"cost table: {name} holds a negative or undefined entry")
        object.__setattr__(self, "link_bytes_s", np.ascontiguousarray(self.link_bytes_s, np.float64))
        if not (self.link_bytes_s > 0.0).all():
            raise PlatformError("cost table: link bandwidth must be positive for every accelerator type")
        for row in np.flatnonzero(~np.isfinite(self.compute_s).any(axis=1)):
            model, layer = self.layer_at(int(row))
            raise PlatformError(
                f"no accelerator of {', '.join(self.types)} can run layer "
                f"'{model.layers[layer].name}' of model '{model.name}'"
            )
        zero = self.latency_s <= 0.0
        if zero.any():
            row, column = np.argwhere(zero)[0]
            model, layer = self.layer_at(int(row))
            raise PlatformError(
                f"layer '{model.layers[layer].name}' of model '{model.name}' takes 0 s on {self.types[column]}; "
                "give a positive time, or inf where it cannot run"
            )

    @cached_property
    def network_of(self) -> npt.NDArray[np.int64]:
        """(models,) the model that stands for all sizes of the same network."""
        return np.array(self.size_of or range(len(self.models)), np.int64)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """(models + 1,) first row of each model."""
        return np.cumsum([0, *(len(m.layers) for m in self.models)], dtype=np.int64)

    def layer_at(self, row: int) -> tuple[DnnModel, int]:
        """The model and the layer index behind a row."""
        index = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return self.models[index], row - int(self.offsets[index])

    @cached_property
    def latency_s(self) -> Floats:
        """(rows, types) isolated latency c."""
        return self.latency_at(self.link_bytes_s)

    def latency_at(self, share_bytes_s: Floats | float) -> Floats:
        """(rows, types) latency when DRAM gives ``share_bytes_s`` (scalar or per type), at most the link's own."""
        share = np.minimum(share_bytes_s, self.link_bytes_s)
        with np.errstate(invalid="ignore"):
            return np.maximum(np.maximum(self.compute_s, self.buffer_s), self.dram_bytes / share)

    @cached_property
    def demand_bytes_s(self) -> Floats:
        """(rows, types) average DRAM bandwidth b that a layer demands when not slowed (0 where it cannot run)."""
        return np.where(np.isfinite(self.latency_s), self.dram_bytes / self.latency_s, 0.0)

    def isolated_s(self, model: int, how: str = "best") -> float:
        """iso_m: sum over layers of the least (``best``) or mean (``mean``, over types able to run it) latency."""
        rows = self.latency_s[self.offsets[model] : self.offsets[model + 1]]
        if how == "best":
            return float(rows.min(axis=1).sum())
        return float(np.nanmean(np.where(np.isfinite(rows), rows, np.nan), axis=1).sum())
