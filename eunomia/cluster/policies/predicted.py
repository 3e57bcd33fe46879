"""Jobs in order of the time that is left by their users' history: run times are learned from jobs that ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from eunomia.cluster.options import not_negative, positive
from eunomia.cluster.policies.run_times import RunTimes, age_bin, index
from eunomia.cluster.policies.serving_order import Memory, Types, serve
from eunomia.cluster.traces import read_jobs
from eunomia.cluster.traces.job_trace import JobTrace
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

SHORT_S = 600.0


@dataclass
class Predicted:
    """Serve in order of the Gittins index per device, from run times of the user's earlier jobs of that size.

    A user is a tenant. Jobs that end during the run are learned. ``history`` is a log of earlier ones: a file in any
    format of traces, or a trace. Its run times are meant on the fastest type. ``strength``: weight, in jobs, of all
    users in what is said of one. ``stay``: how many times as much the index of a running job counts. ``patience``: a
    job older than so many times its run time and ten minutes gains by the square of that; 0 = never. ``every_s``: how
    often the hazards are renewed. Sources: Gittins 1979; users' history: Hu et al., SC 2021.

    Does badly where a user's jobs are unlike his earlier ones: long jobs of users of short ones are stopped often,
    and the reverse wait long. Shares between users are not looked at.
    """

    history: str | JobTrace | None = None
    strength: float = 5.0
    stay: float = 4.0
    patience: float = 3.0
    every_s: float = 900.0
    types: Types = "stay"
    needs: Needs = Needs(answer="devices")
    _past: JobTrace | None = field(default=None, init=False, repr=False)
    _known: RunTimes = field(init=False, repr=False)
    _group: Memory = field(init=False, repr=False)  # of each job, by key
    _run_s: Memory = field(init=False, repr=False)
    _here: Ints = field(init=False, repr=False)  # keys of those present at the last answer
    _index: Floats = field(init=False, repr=False)
    _renewed_s: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("strength", "stay", "every_s"):
            positive(f"predicted: {name}", getattr(self, name))
        not_negative("predicted: patience", self.patience)
        if self.history is not None:
            log = self.history if isinstance(self.history, JobTrace) else read_jobs(Path(self.history))
            self._past = log.select(log.duration_s > 0.0)
            if not len(self._past):
                raise ConfigError(
                    f"predicted: history '{log.path}' has no run times; give a log that has some"
                )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Only the history is known."""
        self._known, self._group, self._run_s = RunTimes(self.strength), Memory(), Memory()
        self._here, self._index, self._renewed_s = np.zeros(0, np.int64), np.zeros((0, 0)), -np.inf
        if self._past is not None:
            users = [self._past.tenants[code] for code in self._past.tenant.tolist()]
            pairs = zip(users, self._past.gpus.tolist(), strict=True)
            leaves = [self._known.leaf(user, size) for user, size in pairs]
            self._known.learn(np.array(leaves), self._past.duration_s)

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices in order of the index."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        speed = np.where(view.runnable, view.throughput, 0.0).max(axis=1)
        group, ran_s = self._learn(view, speed), view.steps_done / speed
        if view.now_s >= self._renewed_s + self.every_s or group.max() >= len(self._index):
            self._index, self._renewed_s = index(self._known.hazards(group, ran_s)), view.now_s
        worth = self._index[group, age_bin(ran_s)] / view.scale
        worth = np.where(view.held.any(axis=1), self.stay * worth, worth)
        if self.patience > 0.0:
            late = view.age_s / (self.patience * (ran_s + SHORT_S))
            worth = worth * np.maximum(late, 1.0) ** 2
        return Allocation(devices=serve(view, np.argsort(-worth, kind="stable"), types=self.types))

    def _learn(self, view: ClusterView, speed: Floats) -> Ints:
        """Groups of those present; a job that is gone has ended, and only now its run time is looked at."""
        gone = np.setdiff1d(self._here, view.key)
        if len(gone):
            self._known.learn(self._group.of(gone).astype(np.int64), self._run_s.of(gone))
        for m in np.flatnonzero(~np.isin(view.key, self._here)).tolist():
            leaf = self._known.leaf(view.tenants[view.tenant[m]], int(view.scale[m]))
            self._group.put(view.key[m : m + 1], leaf)
        self._here = view.key
        self._run_s.put(view.key, view.total_steps / speed)
        return self._group.of(view.key).astype(np.int64)
