"""Training on a server's own traffic: episodes are drawn from a recording, with its measured block times."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from eunomia.config.load import read_table
from eunomia.config.training import TrainingConfig, training_from
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Crew
from eunomia.inference.problem import build_problem
from eunomia.learning.episodes import Episode
from eunomia.study.learning.outcome import Outcome
from eunomia.study.learning.training import Tell, train_policy
from eunomia.study.serving.twin import Twin, read_twin
from eunomia.workload.requests import RequestTable

KEPT_OF = 3  # of so many stretches of a recording, the last is kept to choose policies on
LEAST = 60  # requests of a recording; fewer teach nothing
LOAD = "load"
DEFAULTS: dict[str, object] = {
    "name": "twin",
    "description": "trained on a server's recording",
    "vary": {LOAD: [1.0, 1.2, 1.5]},
    "requests": 500,
    "validation": 48,
    "stage": [{"stage": "linear", "generations": 50, "population": 16, "episodes": 12, "validate_every": 10}],
}
# Steps of one pair, a ramp around each target, and hits where nothing else differs.
PROMISED: dict[str, object] = {
    "promise": "attainment",
    "objective": {"attainment": 1.0, "near_attainment": 0.3, "hit_rate": 0.2},
}


def twin_training(
    recording: str | Path, config: str | Path | None, overrides: tuple[str, ...]
) -> TrainingConfig:
    """A training file, or none, for a recording: ``scenarios`` is the recording, missing keys are ours.

    Without an objective it is SLO attainment, or hits where nothing is promised. ``vary`` knows ``load`` alone:
    arrivals come that many times as densely. Raises ConfigError.
    """
    given = read_table(Path(config), "training file") if config is not None else {}
    if "scenarios" in given:
        raise ConfigError(f"{config} names scenarios; with --twin episodes come from the recording alone")
    said = {*given, *(text.partition("=")[0].partition(".")[0].strip() for text in overrides)}
    ours = {} if said & {*PROMISED, "algorithm"} or not _is_promised(recording) else PROMISED
    data = {**DEFAULTS, **ours, **given, "scenarios": [str(recording)]}
    checked = training_from(data, overrides, str(config or "twin training"), Path(recording).parent)
    if set(checked.vary) - {LOAD} or not all(_is_load(v) for v in checked.vary.get(LOAD, [1.0])):
        raise ConfigError("a twin varies load alone, by positive numbers: vary = { load = [0.8, 1.0, 1.2] }")
    return checked


def _is_promised(recording: str | Path) -> bool:
    return any(agreement.slo is not None for agreement in read_twin(recording).requests.agreements)


class TwinSampler:
    """Traffic drawn anew from stretches of a recording, about ``requests`` requests long, with empty queues first.

    The recording is cut into laps of three stretches. Training episodes are drawn from the first two of a lap,
    validation ones from the last (``redrawn``), so none of them repeats. Loads take turns. Weak where the recording
    holds one kind of hour only: what it has not seen, nothing can be learned for; and where the server was overloaded
    meanwhile, for what it refused is not in it (record below capacity, and vary ``load``).
    """

    def __init__(self, twin: Twin, config: TrainingConfig) -> None:
        if len(twin.requests) < LEAST:
            raise ConfigError(
                f"the recording holds {len(twin.requests)} requests; training needs {LEAST} at least"
            )
        self.twin, self.config = twin, config
        self.loads: list[float] = [float(v) for v in config.vary.get(LOAD, [1.0])]
        self.length = min(config.requests, len(twin.requests) // KEPT_OF)
        self.laps = len(twin.requests) // (
            KEPT_OF * self.length
        )  # of stretches to train on, and one that is kept
        self._kept: list[Episode] | None = None

    @property
    def about(self) -> str:
        """What episodes depend on, as text."""
        r, digest = self.twin.requests, hashlib.sha256()
        for array in (r.pair, r.arrival_s, r.relative_deadline_s, r.size, self.twin.table.latency_s):
            digest.update(np.ascontiguousarray(array).tobytes())
        c = self.config
        return json.dumps([digest.hexdigest(), repr(r.agreements), self.twin.late, self.loads, c.requests, c.validation,
                           c.targets, c.seed, "drawn"])  # fmt: skip

    def training(self, generation: int, count: int) -> list[Episode]:
        """Episodes of one generation."""
        made = []
        for i in range(count):
            rng = np.random.default_rng([self.config.seed, 1, generation, i])
            start = int(rng.integers(self.laps)) * KEPT_OF * self.length
            end = start + (KEPT_OF - 1) * self.length
            made.append(self._episode(start, end, generation * count + i, rng))
        return made

    def validation(self) -> list[Episode]:
        """The same episodes at every call: of every kept stretch, at every load in turn."""
        if self._kept is None:
            self._kept = []
            for i in range(max(self.config.validation, 1)):
                start = (i % self.laps * KEPT_OF + KEPT_OF - 1) * self.length
                rng = np.random.default_rng([self.config.seed, 2, i])
                self._kept.append(self._episode(start, start + self.length, i + i // self.laps, rng))
        return self._kept

    def _episode(self, start: int, end: int, turn: int, rng: np.random.Generator) -> Episode:
        twin, load = self.twin, self.loads[turn % len(self.loads)]
        requests = redrawn(stretch(twin.requests, start, end, load), self.length, rng)
        problem = build_problem(requests, twin.table, twin.platform, twin.options)
        made = Episode(problem, twin.options, f"drawn from {start} on, load x {load:g}")
        if self.config.targets is None:
            return made
        low, high = self.config.targets
        return made.with_targets(low, high, rng)


def stretch(requests: RequestTable, start: int, end: int, load: float = 1.0) -> RequestTable:
    """Rows ``start`` .. ``end - 1``, the first at time 0, ``load`` times as dense."""
    arrival_s = requests.arrival_s[start:end]
    return RequestTable(
        requests.agreements, requests.pair[start:end], (arrival_s - arrival_s[0]) / load,
        requests.relative_deadline_s[start:end], size=requests.size[start:end],
    )  # fmt: skip


def redrawn(requests: RequestTable, count: int, rng: np.random.Generator) -> RequestTable:
    """About ``count`` requests like these: the gaps of each pair with replacement, so its bursts stay its own.

    Bursts that pairs have in common do not.
    """
    n, span_s = len(requests), float(requests.arrival_s[-1])
    span_s = max(span_s * n / max(n - 1, 1), 1e-9)  # with the gap before the first
    rows, times = [], []
    for pair in range(len(requests.agreements)):
        mine = np.flatnonzero(requests.pair == pair)
        if not len(mine):
            continue
        gap_s = np.diff(requests.arrival_s[mine], prepend=requests.arrival_s[mine[-1]] - span_s)
        chosen = rng.integers(len(mine), size=2 * len(mine) * count // n + 20)
        into = rng.random() * gap_s.sum()  # the start lies in a gap as often as that is long
        chosen[0] = min(int(np.searchsorted(np.cumsum(gap_s), into)), len(mine) - 1)
        time_s = np.cumsum(gap_s[chosen]) - gap_s[chosen[0]] * rng.random()
        inside = time_s < span_s * count / n
        rows.append(mine[chosen[inside]])
        times.append(time_s[inside])
    row, time_s = np.concatenate(rows), np.concatenate(times)
    order = np.argsort(time_s, kind="stable")
    row = row[order]
    return RequestTable(
        requests.agreements,
        requests.pair[row],
        time_s[order],
        requests.relative_deadline_s[row],
        size=requests.size[row],
    )


def train_on_twin(
    recording: str | Path, config: TrainingConfig, folder: Path, workers: Crew = 1, tell: Tell | None = None,
    command: str = "",
) -> Outcome:  # fmt: skip
    """``train_policy`` on a recording. Raises ConfigError, RecordError, OutputError."""
    sampler = TwinSampler(read_twin(recording), config)
    return train_policy(config, folder, workers, tell, command, sampler)


def _is_load(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < 1e3
