"""Workers of advantage actor-critic (learner.py): asynchronous, in processes of their own (A3C), or in step (A2C).

Shared RMSprop. A3C applies gradients as they come, under a lock; A2C takes the mean over all workers at each step, and
is the same to the bit however often it is stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock

import numpy as np
import torch
from torch import Tensor

from eunomia.config.algorithm import PlacementAlgorithm
from eunomia.engines.crew import Standing, Workers
from eunomia.inference.environments.edge_cloud.case import Case
from eunomia.inference.environments.edge_cloud.rules import Rule, measured
from eunomia.inference.environments.edge_cloud.traces import Cases
from eunomia.inference.environments.edge_cloud.world import Goals
from eunomia.learning.agents import Context
from eunomia.learning.agents.a3c.learner import DECAY, FOLLOW, Worker, first_tensors, flat, goals_of, unflat
from eunomia.learning.agents.a3c.policy import PreferencePlacement
from eunomia.learning.agents.torch_state import TorchState
from eunomia.learning.episodes import Task
from eunomia.learning.loop import Agent
from eunomia.learning.state import Arrays, Entry, Pieces


def placement_task(settings: PlacementAlgorithm, validation: int, seed: int) -> Task:
    """Traces drawn as the settings say, valued by the reward of their goals."""
    a = settings
    cases = Cases(a.tasks, a.devices, a.tenants, a.load, a.bars, a.traces, validation, seed)
    return Task(cases, partial(reward_of, goals=goals_of(a)))


def reward_of(policy: Rule, case: Case, goals: Goals) -> float:
    """What a policy earns on a trace."""
    return measured(case, policy, goals).reward


class Shared(TorchState):
    """Weights, squares and rho in memory that processes share."""

    PARTS = ("theta", "square", "rho")

    def __init__(self, theta: Tensor, rate: float) -> None:
        self.rate = rate
        self.theta, self.square = theta.clone(), torch.zeros_like(theta)
        self.rho = torch.zeros(1, dtype=torch.float64)
        for shared in (self.theta, self.square, self.rho):
            shared.share_memory_()  # type: ignore[no-untyped-call]

    def apply(self, gradient: Tensor, reward: float, tau: float) -> None:
        """One step of RMSprop, and of rho."""
        with torch.no_grad():
            self.square.mul_(DECAY).addcmul_(gradient, gradient, value=1.0 - DECAY)
            self.theta.addcdiv_(gradient, (self.square + 1e-5).sqrt(), value=-self.rate)
            if tau > 0.0:
                self.rho.add_(FOLLOW * (reward - float(self.rho) * tau))


def worker_of(settings: PlacementAlgorithm, cases: Cases, seed: int, number: int, worker: int) -> Worker:
    """A worker at its first decision in iteration ``number``: its traces, its random numbers."""
    rng = np.random.default_rng([seed, 0xA3C, number, worker])
    return Worker(settings, cases.of_worker(number, worker), rng)


def _serve(orders: Connection, lock: Lock, shared: Shared, hired: Callable[[int, int], Worker]) -> None:
    """A process: plays its traces of an iteration, applies every gradient at once, returns what was earned."""
    torch.set_num_threads(1)
    while (order := orders.recv()) is not None:
        began, worker = time.process_time(), hired(*order)
        while (done := worker.segment(shared.theta.clone(), float(shared.rho))) is not None:
            with lock:
                shared.apply(*done)
        orders.send((worker.rewards, time.process_time() - began))


class PlacementAgent(Agent):
    """A3C or A2C on the environment edge_cloud; the task's episodes are ``Cases``."""

    def __init__(self, settings: PlacementAlgorithm, context: Context) -> None:
        super().__init__(context.task)
        self.settings = settings
        cases = context.task.sampler
        assert isinstance(cases, Cases), "placement is trained on drawn traces"
        self.hired = partial(worker_of, settings, cases, context.seed)
        self.shared = Shared(flat(first_tensors(settings.units, context.seed)), settings.rate)
        self._crew: Standing | None = None

    def iterate(self, number: int, crew: Workers) -> Entry:
        """All workers play their traces."""
        rewards, cpu_s = (self._together if self.settings.name == "a2c" else self._apart)(number)
        return {"reward": float(np.mean(rewards)), "rho": float(self.shared.rho), "workers_cpu_s": cpu_s}

    def _together(self, number: int) -> tuple[list[float], float]:
        crew = [self.hired(number, worker) for worker in range(self.settings.workers)]
        while found := [d for d in (w.segment(self.shared.theta, float(self.shared.rho)) for w in crew) if d]:
            mean = torch.stack([gradient for gradient, _, _ in found]).mean(0)
            self.shared.apply(mean, sum(r for _, r, _ in found), sum(t for _, _, t in found))
        return [reward for worker in crew for reward in worker.rewards], 0.0

    def _apart(self, number: int) -> tuple[list[float], float]:
        """The same by processes. Raises PolicyError if one of them has died."""
        count = self.settings.workers
        self._crew = self._crew or Standing(count, _serve, self.shared, self.hired)
        done = self._crew.ask([(number, worker) for worker in range(count)])
        return [reward for rewards, _ in done for reward in rewards], sum(cpu_s for _, cpu_s in done)

    def arrays(self) -> Arrays:
        """Weights, squares, rho."""
        return self.shared.kept()

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``."""
        self.shared.put_back(arrays)

    def tensors(self) -> Arrays:
        """The policy as numbers."""
        return {n: v.numpy().copy() for n, v in unflat(self.shared.theta, self.settings.units).items()}

    def policy(self, tensors: Arrays, name: str = "") -> PreferencePlacement:
        """A policy of the environment by the likeliest choices."""
        return PreferencePlacement(tensors, name or "placement", self.settings.hidden)

    def close(self) -> None:
        """End the processes of A3C."""
        if self._crew is not None:
            self._crew.close()
        self._crew = None
