"""Requests that miss their deadlines in the inference engine, when tenants are placed by each predictor.

Devices of each kind with two lanes, which two tenants may share; every tenant has a network of its own type, Poisson
requests and a deadline. Tenants are placed one by one: least loss of the newcomer and of the resident together, as
predicted; among equals the emptier device. Then the engine serves each device by EDF under contention ``matrix`` with
the measured slowdowns. A network's own is among them: two requests of a tenant may run side by side. Half of the types
are unknown to the predictors. Every network takes the same time alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.hardware.table import CostTable
from eunomia.inference.options import EngineOptions
from eunomia.inference.simulate import simulate
from eunomia.metrics.metric import Metric
from eunomia.sharing.interference import CoRun
from eunomia.study.cluster.worlds import Figures, Worlds
from eunomia.study.sharing.misses import Pairs, pairs_of
from eunomia.study.sharing.predict import Evidence
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement

ALONE_S = 0.01  # of every network
LANES = 2
METRICS = {
    "missed": Metric("requests after their deadline", "misses", "share", "lower"),
    "broken": Metric("tenants of whom more than 5 % miss", "tenants below 95 %", "share", "lower"),
    "response": Metric("mean response over the time alone", "response", "ratio", "lower"),
}


@dataclass(frozen=True)
class EngineStudy:
    """``load``: of one lane by each tenant, as if alone. ``deadline``: times the time alone.

    ``tenants``: per device.
    """

    devices: int = 8  # of each kind
    tenants: float = 1.5
    load: float = 0.3
    deadline: float = 3.0
    requests: int = 400  # of each tenant
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        if not 0.0 < self.tenants <= LANES:
            raise ConfigError(f"{self.tenants} tenants per device; more than 0, at most {LANES}")
        if not (0.0 < self.load < 1.0 and self.deadline >= 1.0):
            raise ConfigError(
                f"load {self.load} and deadline {self.deadline}; between 0 and 1, and at least 1"
            )


@dataclass(frozen=True)
class _Platform:
    """One device: two lanes that slow each other."""

    slowdowns: Slowdowns
    types: tuple[str, ...] = ("lane",)
    dram_bytes_s: float = math.inf
    contention: str = "matrix"

    @property
    def type_of(self) -> Ints:
        """Of each lane."""
        return np.zeros(LANES, np.int64)


def run_engine_misses(evidence: Evidence, study: EngineStudy | None = None) -> Worlds:
    """Each back end, fewest residents, and the measured slowdowns themselves.

    Raises ConfigError where no pair was measured in both directions.
    """
    study = study or EngineStudy()
    truth = pairs_of(evidence.rows)
    if not truth:
        raise ConfigError(
            "no pair was measured in both directions; placing needs what each does to the other"
        )
    methods = ["least loaded", *evidence.back_ends(), "oracle"]
    figures: dict[str, list[Figures]] = {name: [] for name in methods}
    for seed in study.seeds:
        rng = np.random.default_rng([seed, 75])
        jobs, kinds = (sorted({key[n] for key in truth}) for n in (0, 2))
        unknown = set(rng.permutation(jobs)[: len(jobs) // 2].tolist())
        seen = [row for row in evidence.rows if not unknown & {row.target, *row.neighbours}]
        devices = np.repeat(kinds, study.devices)
        names = rng.choice(jobs, max(1, round(study.tenants * len(devices)))).tolist()
        devices = rng.permutation(devices).tolist()
        done: dict[tuple[str, tuple[int, ...]], list[Floats]] = {}
        for name in methods:
            believed = _believed(evidence, name, seen, truth)
            shared = placed(names, devices, believed, truth)
            responses: list[Floats] = [np.empty(0)] * len(names)
            for kind, residents in zip(devices, shared, strict=True):
                key = kind, tuple(sorted(residents))
                if residents and key not in done:
                    done[key] = _served(study, truth, kind, {n: names[n] for n in key[1]}, seed)
                for n, one in zip(key[1], done.get(key, []), strict=True):
                    responses[n] = one
            figures[name].append(_figures(responses, study.deadline))
    found = {name: tuple(runs) for name, runs in figures.items()}
    return Worlds("Misses in the engine by predictor", study.seeds, found, "missed", METRICS)


def placed(names: Sequence[str], devices: Sequence[str], believed: Pairs, measured: Pairs) -> list[list[int]]:
    """Tenants of each device, none of more than two. ConfigError where one fits nowhere."""
    shared: list[list[int]] = [[] for _ in devices]
    for n, name in enumerate(names):
        best, least = -1, (math.inf, 0)
        for at, (kind, residents) in enumerate(zip(devices, shared, strict=True)):
            others = [names[other] for other in residents]
            if len(others) == LANES or any((name, other, kind) not in measured for other in others):
                continue
            loss = sum(believed[name, other, kind] + believed[other, name, kind] - 2.0 for other in others)
            if (loss, len(others)) < least:
                best, least = at, (loss, len(others))
        if best < 0:
            raise ConfigError(f"tenant {n} of {len(names)} fits on none of {len(devices)} devices; give more")
        shared[best].append(n)
    return shared


def _believed(evidence: Evidence, name: str, seen: Sequence[CoRun], truth: Pairs) -> Pairs:
    if name == "oracle":
        return truth
    if name == "least loaded":
        return dict.fromkeys(truth, 1.0)
    model = evidence.fitted(name, seen)
    return {(a, b, kind): model.predict(a, [b], kind)[0] for a, b, kind in truth}


def _served(
    study: EngineStudy, truth: Pairs, kind: str, residents: Mapping[int, str], seed: int
) -> list[Floats]:
    """Responses over time alone of each resident's requests. Unmeasured beside itself: half the speed."""
    models = tuple(DnnModel(f"{n}", (Layer("all", "elementwise", in_w=1),), ()) for n in residents)
    pairs = tuple(
        tuple(truth.get((a, b, kind), float(LANES)) for b in residents.values()) for a in residents.values()
    )
    arrivals = [
        np.random.default_rng([seed, 76, n]).exponential(ALONE_S / study.load, study.requests).cumsum()
        for n in residents
    ]
    every, pair = np.concatenate(arrivals), np.repeat(np.arange(len(residents)), study.requests)
    order = np.argsort(every, kind="stable")
    agreements = tuple(Agreement(f"{n}", f"{n}") for n in residents)
    deadline_s = np.full(len(every), study.deadline * ALONE_S)
    requests = RequestTable(agreements, pair[order], every[order], deadline_s)
    none = np.zeros((len(models), 1))
    table = CostTable(models, ("lane",), none + ALONE_S, none, none, none, np.ones(1))
    platform = _Platform(Slowdowns(tuple(model.name for model in models), pairs))
    run = simulate(requests, table, platform, "edf", EngineOptions(late="run", record="requests"))
    response = (np.asarray(run.tables["requests"]["finish_s"]) - every[order]) / ALONE_S
    return [response[pair[order] == n] for n in range(len(residents))]


def _figures(responses: Sequence[Floats], deadline: float) -> Figures:
    missed = [float((one > deadline).mean()) for one in responses]
    return {
        "missed": float(np.mean(missed)),
        "broken": float(np.mean(np.array(missed) > 0.05)),
        "response": float(np.mean([one.mean() for one in responses])),
    }
