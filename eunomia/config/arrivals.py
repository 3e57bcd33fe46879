"""``arrivals = { process = ..., ... }`` or ``{ trace = ..., path = ..., ... }`` of a tenant.

The keys of each process are the fields of the class that eunomia/workload/processes.py registers for it.
"""

from __future__ import annotations

import difflib
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from eunomia.config.section import (
    FilePath,
    Name,
    NameOrFile,
    NotNegative,
    Positive,
    Section,
    Share,
    unknown_name,
    wrong,
)
from eunomia.core.own_file import split_file
from eunomia.workload.processes import ARRIVALS
from eunomia.workload.traces import TRACES

Count = Annotated[int, Field(ge=1, le=1_000_000)]


class PoissonConfig(Section):
    """Independent arrivals with exponential gaps."""

    process: Literal["poisson"]
    rate_per_s: Positive


class BurstyConfig(Section):
    """Bursts at ``burstiness`` times the mean rate ``rate_per_s``, which hold half of the requests."""

    process: Literal["bursty"]
    rate_per_s: Positive
    burstiness: Annotated[float, Field(ge=1.0)] = 4.0
    mean_burst_s: Positive = 1.0


class MmppConfig(Section):
    """A two-state Markov-modulated Poisson process, all four numbers given."""

    process: Literal["mmpp"]
    calm_rate_per_s: NotNegative
    burst_rate_per_s: Positive
    mean_calm_s: Positive
    mean_burst_s: Positive


class DiurnalConfig(Section):
    """A Poisson process whose rate swings as a cosine around ``rate_per_s``, highest at ``peak_s``."""

    process: Literal["diurnal"]
    rate_per_s: Positive
    amplitude: Share = 0.5
    period_s: Positive = 86_400.0
    peak_s: float = 0.0


class ProfileConfig(Section):
    """A Poisson process whose rate follows steps of equal length, repeated."""

    process: Literal["profile"]
    rate_per_s: Positive
    weights: list[NotNegative] = Field(min_length=1)
    period_s: Positive = 86_400.0


class PeriodicConfig(Section):
    """One request every ``period_s``, each late by up to ``jitter_s``: camera frames."""

    process: Literal["periodic"]
    period_s: Positive
    jitter_s: NotNegative = 0.0
    offset_s: NotNegative = 0.0


class ClosedLoopConfig(Section):
    """Clients that send, wait for the answer, think, and send again."""

    process: Literal["closed_loop"]
    clients: Count
    think_s: NotNegative = 0.0
    think: Literal["exponential", "fixed"] = "exponential"
    requests_per_client: Count | None = None  # None = as many as fit; needed when think_s = 0


class MocaConfig(Section):
    """Streams paced by isolated times, as in MoCA's artifact."""

    process: Literal["moca"]
    cap: Positive
    streams: Count = 4
    jitter_s: NotNegative = 45e-6
    limit: Count | None = None


class AuroraConfig(Section):
    """Streams paced by the mean isolated time, as in AuRORA's artifact."""

    process: Literal["aurora"]
    cap: Positive = 0.85
    streams: Count = 4
    jitter_steps: Annotated[int, Field(ge=0)] = 40
    limit: Count | None = None


class TraceConfig(Section):
    """Arrival times of a recorded trace, ``speedup`` times as fast, from ``skip_s`` of trace time on.

    ``trace``: a format by name, or ``FILE.py:NAME``.

    ``window``: which piece of a trace that is longer than the run; ``random`` draws it per seed.
    """

    trace: NameOrFile
    path: FilePath
    tenant: Name | None = None  # only the rows of this tenant of the trace
    speedup: Positive = 1.0
    skip_s: NotNegative = 0.0
    loop: bool = False
    window: Literal["random", "start"] = "random"

    @model_validator(mode="after")
    def _known_format(self) -> Self:
        if self.trace not in ("auto", *TRACES) and split_file(self.trace) is None:
            raise unknown_name("trace", "trace format", self.trace, TRACES)
        return self


class PluginConfig(Section):
    """A process without a section here: of an installed package, of ``FILE.py:NAME``, or new in the table."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    process: NameOrFile

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: object) -> object:
        return data  # its own constructor checks the keys


PROCESSES: dict[str, type[Section]] = {
    "poisson": PoissonConfig,
    "bursty": BurstyConfig,
    "mmpp": MmppConfig,
    "diurnal": DiurnalConfig,
    "profile": ProfileConfig,
    "periodic": PeriodicConfig,
    "closed_loop": ClosedLoopConfig,
    "moca": MocaConfig,
    "aurora": AuroraConfig,
}


def _kind(value: object) -> str:
    """Which member of the union below a table is for."""
    if isinstance(value, TraceConfig) or (isinstance(value, dict) and "trace" in value):
        return "trace"
    name = value.get("process") if isinstance(value, dict) else getattr(value, "process", None)
    return str(name) if name in PROCESSES else "plugin"


def _known(value: object) -> object:
    """Refuse a table that names neither a process nor a trace, with the nearest name."""
    if not isinstance(value, dict) or "trace" in value:
        return value
    known = ARRIVALS.names()
    ask = f"give process = one of {', '.join(known)}, or trace = a format with path = a file"
    if "process" not in value:
        raise wrong(ask)
    name = str(value["process"])
    if name in known or split_file(name) is not None:
        return value
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise wrong(f"unknown process '{name}'; {hint}{ask}")


ArrivalsConfig = Annotated[
    Annotated[PoissonConfig, Tag("poisson")]
    | Annotated[BurstyConfig, Tag("bursty")]
    | Annotated[MmppConfig, Tag("mmpp")]
    | Annotated[DiurnalConfig, Tag("diurnal")]
    | Annotated[ProfileConfig, Tag("profile")]
    | Annotated[PeriodicConfig, Tag("periodic")]
    | Annotated[ClosedLoopConfig, Tag("closed_loop")]
    | Annotated[MocaConfig, Tag("moca")]
    | Annotated[AuroraConfig, Tag("aurora")]
    | Annotated[TraceConfig, Tag("trace")]
    | Annotated[PluginConfig, Tag("plugin")],
    Discriminator(_kind),
    BeforeValidator(_known),
]
