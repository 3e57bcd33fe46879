"""Workers of advantage actor-critic (learner.py): asynchronous, in processes of their own (A3C), or in step (A2C).

Shared RMSprop. A3C applies gradients as they come, under a lock; A2C takes the mean over all workers at each step, and
is the same to the bit however often it is stopped.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import queue
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eunomia.core.errors import PolicyError
from eunomia.core.workers import follow_parent
from eunomia.inference.environments.edge_cloud.case import Case, Floats, draw
from eunomia.inference.environments.edge_cloud.rules import measured
from eunomia.learning.agents.a3c.learner import Settings, Worker, first_tensors, flat, unflat
from eunomia.learning.agents.a3c.policy import PreferencePlacement
from eunomia.learning.agents.torch_state import Arrays

FIRST_TRAINING_SEED, FIRST_VALIDATION_SEED = 1_000_000, 900_000  # apart from those of tests


class Shared:
    """Weights, squares and rho in memory that processes share."""

    def __init__(self, theta: Tensor) -> None:
        self.theta, self.square = theta.clone(), torch.zeros_like(theta)
        self.rho = torch.zeros(1, dtype=torch.float64)
        for shared in (self.theta, self.square, self.rho):
            shared.share_memory_()  # type: ignore[no-untyped-call]

    def apply(self, gradient: Tensor, reward: float, tau: float, s: Settings) -> None:
        """One step of RMSprop, and of rho."""
        with torch.no_grad():
            self.square.mul_(s.decay).addcmul_(gradient, gradient, value=1.0 - s.decay)
            self.theta.addcdiv_(gradient, (self.square + 1e-5).sqrt(), value=-s.rate)
            if tau > 0.0:
                self.rho.add_(s.follow * (reward - float(self.rho) * tau))


def _serve(orders: Any, answers: Any, shared: Shared, lock: Any, settings: Settings, cases: Any) -> None:
    """A process: plays its traces of an iteration, applies every gradient at once, says what was earned."""
    parent = os.getppid()
    follow_parent(parent)
    torch.set_num_threads(1)
    while True:
        try:
            order = orders.get(timeout=5.0)
        except queue.Empty:
            if os.getppid() != parent:
                return  # the parent was killed
            continue
        if order is None:
            return
        began = time.process_time()
        number, worker = order
        player = Worker(settings, cases(number, worker), _rng(settings, number, worker))
        while (done := player.segment(shared.theta.clone(), float(shared.rho))) is not None:
            with lock:
                shared.apply(*done, settings)
        answers.put((player.rewards, time.process_time() - began))


@dataclass(frozen=True)
class Cases:
    """Where traces come from: ``draw`` with these arguments."""

    tasks: int = 40
    devices: int = 6
    tenants: int = 4
    load: float = 1.0
    bars: float = 0.15
    traces: int = 2
    validation: int = 24
    seed: int = 0

    def __call__(self, number: int, worker: int) -> list[Case]:
        """The traces of a worker in an iteration."""
        first = FIRST_TRAINING_SEED * (1 + self.seed) + number * 10_000 + worker * 100
        return [self.one(first + n) for n in range(self.traces)]

    def validating(self) -> list[Case]:
        """The same at every call."""
        return [self.one(FIRST_VALIDATION_SEED + n) for n in range(self.validation)]

    def one(self, seed: int) -> Case:
        """One trace."""
        return draw(seed, self.tasks, self.devices, self.tenants, self.load, self.bars)


def _rng(settings: Settings, number: int, worker: int) -> np.random.Generator:
    return np.random.default_rng([settings.seed, 0xA3C, number, worker])


class PlacementAgent:
    """A3C or A2C for the loop of loop.py. Use it in a ``with`` block: A3C has processes to end."""

    def __init__(self, settings: Settings, cases: Cases) -> None:
        self.settings, self.cases = settings, cases
        self.shared = Shared(flat(first_tensors(settings.units, settings.seed)))
        self._crew: list[tuple[Any, Any]] = []
        self._answers: Any = None
        self._lock: Any = None

    def __enter__(self) -> PlacementAgent:
        return self

    def __exit__(self, *_: object) -> None:
        for process, orders in self._crew:
            orders.put(None)
            process.join(5.0)
            if process.is_alive():
                process.terminate()
        self._crew = []

    def iterate(self, number: int) -> dict[str, float]:
        """All workers play their traces."""
        rewards, cpu_s = (self._together if self.settings.together else self._apart)(number)
        return {"reward": float(np.mean(rewards)), "rho": float(self.shared.rho), "workers_cpu_s": cpu_s}

    def _together(self, number: int) -> tuple[list[float], float]:
        s = self.settings
        crew = [Worker(s, self.cases(number, w), _rng(s, number, w)) for w in range(s.workers)]
        while found := [d for d in (w.segment(self.shared.theta, float(self.shared.rho)) for w in crew) if d]:
            mean = torch.stack([gradient for gradient, _, _ in found]).mean(0)
            self.shared.apply(mean, sum(r for _, r, _ in found), sum(t for _, _, t in found), s)
        return [reward for worker in crew for reward in worker.rewards], 0.0

    def _apart(self, number: int) -> tuple[list[float], float]:
        if not self._crew:
            self._hire()
        for worker, (_, orders) in enumerate(self._crew):
            orders.put((number, worker))
        done = [self._answer() for _ in self._crew]
        return [reward for rewards, _ in done for reward in rewards], sum(cpu_s for _, cpu_s in done)

    def _answer(self) -> tuple[list[float], float]:
        """The next worker's answer. Raises PolicyError if one of them has died."""
        while True:
            try:
                answer: tuple[list[float], float] = self._answers.get(timeout=2.0)
                return answer
            except queue.Empty:
                if not all(process.is_alive() for process, _ in self._crew):
                    raise PolicyError(
                        "a worker of the training ended before its time; start it again"
                    ) from None

    def _hire(self) -> None:
        context = mp.get_context("spawn")
        self._answers, self._lock = (
            context.Queue(),
            context.Lock(),
        )  # kept: a process opens them when it is up
        for _ in range(self.settings.workers):
            orders = context.Queue()
            given = (orders, self._answers, self.shared, self._lock, self.settings, self.cases)
            process = context.Process(target=_serve, args=given, daemon=True)
            process.start()
            self._crew.append((process, orders))

    def arrays(self) -> Arrays:
        """Weights, squares, rho."""
        return {name: getattr(self.shared, name).numpy().copy() for name in ("theta", "square", "rho")}

    def restore(self, arrays: Arrays) -> None:
        """Go on from ``arrays()``."""
        for name in ("theta", "square", "rho"):
            getattr(self.shared, name).copy_(torch.from_numpy(arrays[name].copy()))

    def tensors(self) -> dict[str, Floats]:
        """The policy as numbers."""
        return {n: v.numpy().copy() for n, v in unflat(self.shared.theta, self.settings.units).items()}

    def validate(self, tensors: dict[str, Floats]) -> Floats:
        """Reward of every validation trace, by the likeliest choices."""
        policy = PreferencePlacement(tensors, hidden=self.settings.hidden)
        return np.array(
            [measured(case, policy, self.settings.goals).reward for case in self.cases.validating()]
        )
