"""The ``[algorithm]`` table of a training file: a gradient trainer in place of the search in stages, by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from eunomia.config.section import NotNegative, Positive, Section, Share

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Units = Annotated[int, Field(ge=1, le=256)]
Auxiliary = Literal["next_demand", "next_waiting", "next_hopeless"]


class RelmasAlgorithm(Section):
    """RELMAS: ``ddpg``, or ``td3`` with two critics. ``period_layers`` > 0: periodic. docs/deviations.d/relmas.md."""

    name: Literal["ddpg", "td3"]
    network: Literal["lstm", "sets"] = (
        "lstm"  # sets: Deep Sets over sub-jobs and accelerators, any number of either
    )
    iterations: Count = 100
    episodes: Count = 2  # traces per iteration
    rollouts: Count = 4  # of each trace, under other noise; baseline: the mean of the others
    updates: Count = 24  # per iteration
    teacher: Annotated[str, Field(pattern=r"^edf(_bytes)?\+f\+eft(\+g\d+(\.\d+)?)?$")] = "edf+f+eft+g1"
    residual: bool = True  # actions correct the teacher; else they are cloned from it
    clone_episodes: Count = 2
    clone_steps: Count = 1200  # without residual
    critic_first: Annotated[int, Field(ge=0)] = 2
    period_layers: NotNegative = 0.0  # T_s in mean layer times; 0 = every event
    imitation: NotNegative = 0.5
    reward: Literal["R1", "R2", "R5", "R6"] = "R1"
    spread: NotNegative = 1.0  # phi of R6: how much fairness weighs against latency
    credit: Literal["request", "period"] = "request"  # R1: outcomes, each against its own in other rollouts
    horizon: Positive = 1.0  # of the discount, in longest relative deadlines
    ahead: NotNegative = 1.0  # rewards earned before the critic is asked, in horizons; 0 = one decision
    critic: Literal["compatible", "joint"] = "compatible"
    explore: Literal["weights", "requests", "steps"] = "weights"
    sigma: Positive = 0.3  # of exploration noise, at first; at last a third of it
    normalise: bool = True
    scale: Positive = 100.0
    units: Units = 32
    most: Annotated[int, Field(ge=1, le=256)] = 32  # sub-jobs in the list
    every: Count = 8  # decisions per one that is remembered
    rate: Positive = 3e-4  # of the actor; the critics' is 1e-3
    validate_every: Count = 20

    @property
    def corrected(self) -> dict[str, float]:
        """What the policy takes of the teacher and of the list. A gate of 1e6 is none; 3 as in ``edf_bytes``."""
        order, _, gate = self.teacher.partition("+f+eft")
        toll = 3.0 if order == "edf_bytes" else 0.0
        return {"gate": float(gate[2:] or 1e6), "toll": toll, "residual": self.residual, "most": self.most}


class _Played(Section):
    """What trainers over the environment have in common. An iteration is ``episodes`` whole episodes."""

    iterations: Count = 20
    episodes: Count = 4
    most: Annotated[int, Field(ge=1, le=256)] = 32  # sub-jobs shown at a decision
    reward: Literal["R1", "R2", "R3", "R4", "R5", "R6"] = "R1"
    scale: Positive = 100.0
    units: Units = 64
    validate_every: Count = 5


class PpoAlgorithm(_Played):
    """PPO with a masked pointer."""

    name: Literal["ppo"]
    epochs: Count = 4
    minibatch: Count = 256
    rate: Positive = 3e-4
    gamma: Share = 0.997
    entropy: NotNegative = 0.003


class SacAlgorithm(_Played):
    """Discrete soft actor-critic with masked pointers."""

    name: Literal["sac"]
    every: Count = 4  # steps of all episodes per update
    batch: Count = 128
    replay: Count = 20_000
    rate: Positive = 3e-4
    gamma: Share = 0.99


class BdqAlgorithm(_Played):
    """Branching Q. ``shared``: one branch for all accelerators (unibranch)."""

    name: Literal["bdq"]
    shared: bool = True
    every: Count = 2
    batch: Count = 64
    replay: Count = 20_000
    copy_every: Count = 200
    rate: Positive = 1e-3
    gamma: Share = 0.99
    auxiliaries: list[Auxiliary] = Field(default_factory=list)
    auxiliary: Share = 0.1


class DeferrableAlgorithm(Section):
    """When deferrable requests start beside a base policy: weights by CMA-ES. Objective: on-demand + share x theirs."""

    name: Literal["deferrable"]
    iterations: Count = 15
    population: Annotated[int, Field(ge=4, le=1000)] = 8
    episodes: Count = 3  # per iteration
    sigma: Positive = 1.0
    share: NotNegative = 0.5  # worth of a deferrable hit rate of 1 against an on-demand one of 1
    base: str = "edf+f+eft"
    validate_every: Count = 5


class PlacementAlgorithm(Section):
    """Placement of whole tasks under preferences and rules: ``a3c`` with processes, or ``a2c`` in step.

    Traces are drawn, not read: no scenario is needed. The objective is the reward of the goals.
    """

    name: Literal["a3c", "a2c"]
    iterations: Count = 40
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    traces: Annotated[int, Field(ge=1, le=100)] = 2  # per worker and iteration
    tasks: Annotated[int, Field(ge=1, le=10_000)] = 40
    devices: Annotated[int, Field(ge=1, le=1000)] = 6
    tenants: Annotated[int, Field(ge=1, le=1000)] = 4
    load: Positive = 1.0
    bars: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.15  # probability of each rule
    requester: NotNegative = 1.0
    provider: NotNegative = 0.5
    utilisation: NotNegative = 0.5
    waiting: NotNegative = 0.1
    steps: Count = 24  # decisions per gradient
    units: Units = 32
    rate: Positive = 1e-3
    entropy: NotNegative = 0.01
    hidden: bool = False  # ablation: likes are not seen
    penalty: NotNegative = 0.0  # > 0: nothing is masked; an illegal pair costs this and counts as deferring
    period: NotNegative = 0.0  # > 0: decisions at its multiples, in mean run times
    validate_every: Count = 5


class OwnAlgorithm(Section):
    """An agent of your own: ``FILE.py:NAME``, or the name of an entry point of the group ``eunomia.agents``.

    It is made as ``NAME(section, context)``; ``settings`` are for it alone.
    """

    name: Literal["own"]
    agent: Annotated[str, Field(min_length=1)]
    iterations: Count = 20
    validate_every: Count = 5
    settings: dict[str, Any] = Field(default_factory=dict)


Algorithm = Annotated[
    RelmasAlgorithm
    | PpoAlgorithm
    | SacAlgorithm
    | BdqAlgorithm
    | DeferrableAlgorithm
    | PlacementAlgorithm
    | OwnAlgorithm,
    Field(discriminator="name"),
]
