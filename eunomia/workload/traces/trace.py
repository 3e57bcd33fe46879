"""What every trace reader returns: rows as columns, from time 0, sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.workload.quantity import positive

Codes = npt.NDArray[np.int32]

OPTIONAL = ("relative_deadline_s", "priority", "duration_s", "context_tokens", "generated_tokens", "gpus")


@dataclass(frozen=True, eq=False)
class Trace:
    """Arrivals that really happened, sorted by time; ties keep the order of the file.

    ``model`` is -1 where the file names none: see ``with_model`` and ``with_buckets``. Columns that a
    format does not have are None.
    """

    format: str
    path: str
    arrival_s: Floats  # (n,) ascending, at least 0
    tenants: tuple[str, ...]
    tenant: Codes  # (n,) index into tenants
    models: tuple[str, ...]
    model: Codes  # (n,) index into models, -1 = not named
    relative_deadline_s: Floats | None = None  # (n,) inf = none
    priority: Floats | None = None  # (n,) higher is more urgent
    duration_s: Floats | None = None  # (n,) measured run time, nan = unknown
    context_tokens: Ints | None = None  # (n,)
    generated_tokens: Ints | None = None  # (n,)
    gpus: Ints | None = None  # (n,)
    source: str = ""  # who published it
    licence: str = ""  # what its publisher says about reuse; empty = not known
    notes: tuple[str, ...] = ()  # what the reader left out or assumed

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """Time from the first to the last arrival."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) else 0.0

    @property
    def mean_rate_per_s(self) -> float:
        """(n - 1) / span: arrivals per second; 0 where the span is 0."""
        return (len(self) - 1) / self.span_s if self.span_s > 0.0 else 0.0

    def select(self, rows: npt.NDArray[np.bool_] | Ints | slice) -> Trace:
        """Some of the rows; times are kept."""
        kept = {name: getattr(self, name)[rows] for name in OPTIONAL if getattr(self, name) is not None}
        return replace(
            self, arrival_s=self.arrival_s[rows], tenant=self.tenant[rows], model=self.model[rows], **kept
        )

    def of_tenant(self, name: str) -> Trace:
        """The rows of one tenant; raises ConfigError when there is none of that name."""
        if name not in self.tenants:
            raise ConfigError(f"{self.path}: no tenant '{name}' in this trace of {len(self.tenants)} tenants")
        return self.select(self.tenant == self.tenants.index(name))

    def between(self, start_s: float, end_s: float) -> Trace:
        """Arrivals in [start_s, end_s), with ``start_s`` as the new time 0."""
        first, last = np.searchsorted(self.arrival_s, [start_s, end_s])
        part = self.select(slice(int(first), int(last)))
        return replace(part, arrival_s=part.arrival_s - start_s)

    def faster(self, speedup: float) -> Trace:
        """Arrival times divided by ``speedup``; durations and deadlines stay."""
        return replace(self, arrival_s=self.arrival_s / positive("speedup", speedup))

    def at_rate(self, rate_per_s: float) -> Trace:
        """Scaled to a mean arrival rate; raises ConfigError for a trace without two different times."""
        positive("rate_per_s", rate_per_s)
        if not self.mean_rate_per_s:
            raise ConfigError(f"{self.path}: all rows arrive at one time, so the rate cannot be scaled")
        return self.faster(rate_per_s / self.mean_rate_per_s)

    def at_load(self, load: float, capacity_per_s: float) -> Trace:
        """Scaled to ``load`` times the platform's capacity, in requests per second of this mix."""
        return self.at_rate(positive("load", load) * positive("capacity_per_s", capacity_per_s))

    def with_model(self, name: str) -> Trace:
        """Every row requests one model: the mapping for traces that name none."""
        return replace(self, models=(name,), model=np.zeros(len(self), np.int32))

    def with_models(self, mapping: Mapping[str, str]) -> Trace:
        """Rename the trace's models; raises ConfigError for one that ``mapping`` leaves out."""
        missing = [name for name in self.models if name not in mapping]
        if missing or (self.model < 0).any():
            unnamed = f"'{missing[0]}'" if missing else "the rows without one"
            raise ConfigError(f"{self.path}: the mapping has no model for {unnamed}")
        names = tuple(sorted({mapping[name] for name in self.models}))
        codes = np.array([names.index(mapping[name]) for name in self.models], np.int32)
        return replace(self, models=names, model=codes[self.model])

    def with_buckets(self, buckets: Sequence[tuple[int, str]]) -> Trace:
        """Choose the model by context length: the first bucket (most tokens, model) that holds the row.

        Longer rows go to the last bucket. Raises ConfigError for a trace without token counts.
        """
        if self.context_tokens is None:
            raise ConfigError(f"{self.path}: a {self.format} trace has no token counts to choose a model by")
        limits = np.array([tokens for tokens, _ in buckets], np.int64)
        if not len(limits) or (np.diff(limits) <= 0).any():
            raise ConfigError("token buckets must be given, in ascending order")
        codes = np.minimum(np.searchsorted(limits, self.context_tokens), len(limits) - 1).astype(np.int32)
        return replace(self, models=tuple(name for _, name in buckets), model=codes)

    def with_largest_tenants(self, count: int, rest: str = "other") -> Trace:
        """Keep the ``count`` tenants with most rows; the others become one tenant called ``rest``."""
        if count < 1:
            raise ConfigError(f"number of tenants to keep is {count}; it must be at least 1")
        if count >= len(self.tenants):
            return self
        rows = np.bincount(self.tenant, minlength=len(self.tenants))
        kept = np.sort(np.argsort(-rows, kind="stable")[:count])
        codes = np.full(len(self.tenants), count, np.int32)
        codes[kept] = np.arange(count)
        names = (*(self.tenants[k] for k in kept), rest)
        return replace(self, tenants=names, tenant=codes[self.tenant])


def sorted_from_zero(trace: Trace) -> Trace:
    """Rows in order of arrival (ties keep the file's order), the first at 0."""
    order = np.argsort(trace.arrival_s, kind="stable")
    ordered = trace if (order[:-1] < order[1:]).all() else trace.select(order)
    return replace(ordered, arrival_s=ordered.arrival_s - ordered.arrival_s[0])
