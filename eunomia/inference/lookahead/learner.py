"""What rollouts need to follow a learned policy: its weights, tables of constants, and compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numba import types

from eunomia.contract.rows import CompiledDecide
from eunomia.core.addresses import address_of
from eunomia.core.arrays import Floats, Records
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.memory import KERNEL_TYPE
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.lookahead import learned_terms as at
from eunomia.inference.lookahead.learned import follow_learned
from eunomia.inference.lookahead.learned_choice import choose_by_learned_plan
from eunomia.inference.lookahead.memory import ARRAYS, WORKSPACE_TYPE
from eunomia.inference.problem import Problem
from eunomia.learning.observation.compiled import TINY_S
from eunomia.learning.observation.table import DEMAND, DONE, GAP, INTENSITY, NEEDY_SIZE, SLOWER, START_JOB
from eunomia.learning.policy import weights as block
from eunomia.learning.policy.learned import FOLDERS, LearnedPolicy
from eunomia.learning.policy.weights import Weights


@dataclass(frozen=True)
class Followed:
    """A learned policy that rollouts can follow. Raises PolicyError for what they cannot."""

    policy: LearnedPolicy

    def __post_init__(self) -> None:
        if self.policy.weights.kind != "linear":
            raise PolicyError(
                f"lookahead cannot follow the learned policy '{self.policy.name}': it holds a "
                f'{self.policy.weights.kind} network, and rollouts follow linear ones; train it with kind = "linear"'
            )

    @property
    def address(self) -> int:
        """Where the machine code stands that follows it."""
        return learner_address()

    @property
    def decide(self) -> CompiledDecide:
        """The compiled decision by a plan that may follow it."""
        return compiled_choice()

    def arrays(self, problem: Problem, slots: int, nodes: int) -> dict[str, Records]:
        """The arrays of the workspace; the policy must have been attached to the run."""
        bandwidth = np.inf if self.policy.block[block.APART] == 1.0 else problem.bandwidth_bytes_s
        lanes = len(problem.type_of)
        lengths = {"asked": slots, "standing": nodes, "lane_demand": lanes, "rates": lanes + 1 + at.N_SHARE}
        lengths["first_free"] = problem.costs.estimate_s.shape[1]
        made = {name: np.zeros(length, ARRAYS[name]) for name, length in lengths.items()}
        made["weights"] = np.zeros(at.SIZE, ARRAYS["weights"])
        made["weights"]["value"] = _constants(self.policy, bandwidth)
        made["fixed"] = _fixed(self.policy.weights, problem, bandwidth)
        made["ahead"] = _ahead(made["weights"]["value"], problem, bandwidth)
        return made


def _constants(policy: LearnedPolicy, bandwidth: float) -> Floats:
    """The weights in the order of learned.py."""
    w, out = policy.weights, np.zeros(at.SIZE)
    margin = np.zeros(at.N_JOB)
    margin[list(START_JOB)] = w.start[at.N_PAIR + at.N_GLOBAL :]
    out[at.SCORE_AT : at.MARGIN_AT], out[at.MARGIN_AT : at.GLOBAL_AT] = w.base + w.job, margin
    out[at.GLOBAL_AT : at.PLACE_AT] = w.start[at.N_PAIR : at.N_PAIR + at.N_GLOBAL]
    out[at.PLACE_AT : at.START_AT], out[at.START_AT : at.SHARE_AT] = w.pair, w.start[: at.N_PAIR]
    out[at.SHARE_AT : at.GATE] = w.share
    promised = np.any((w.base + w.job)[GAP : NEEDY_SIZE + 1]) or np.any(margin[GAP : NEEDY_SIZE + 1])
    numbers = (
        w.gate,
        policy.block[block.PLACE],
        policy.block[block.WAY],
        float(promised),
        bandwidth,
        1.0 / bandwidth,
    )
    out[at.GATE : at.SIZE] = numbers
    return out


def _fixed(w: Weights, problem: Problem, bandwidth: float) -> Records:
    """Terms of every layer on every type: its time against the least one, and its share of the bandwidth."""
    c, b = problem.costs.estimate_s, problem.costs.estimate_demand
    with np.errstate(invalid="ignore"):
        slower = np.log(np.maximum(c, TINY_S) / np.maximum(c.min(axis=1, keepdims=True), TINY_S))
    share = np.minimum(4.0, b / bandwidth)
    made = np.zeros(c.shape, ARRAYS["fixed"])
    for name, weights in (("place", w.pair), ("start", w.start)):
        made[name] = weights[SLOWER] * slower + weights[DEMAND] * share
    return made.reshape(-1)


def _ahead(weights: Floats, problem: Problem, bandwidth: float) -> Records:
    """What a request has before it at every layer, if layers end in order."""
    graph, lanes = problem.graph, len(problem.type_of)
    made = np.zeros(len(graph.best_s), ARRAYS["ahead"])
    for first, end in pairwise(graph.offset.tolist()):
        rows = slice(first, end)
        work_s = np.maximum(np.cumsum(graph.best_s[rows][::-1])[::-1], TINY_S)
        bytes_s = np.cumsum(graph.row_bytes[rows][::-1])[::-1] / bandwidth
        intensity, done = np.minimum(4.0, bytes_s / work_s), 1.0 - work_s / work_s[:1]
        made["log_work"][rows], made["log_cost"][rows] = np.log(work_s), np.log(work_s + bytes_s * lanes)
        made["score"][rows] = (
            weights[at.SCORE_AT + INTENSITY] * intensity + weights[at.SCORE_AT + DONE] * done
        )
        made["margin"][rows] = weights[at.MARGIN_AT + INTENSITY] * intensity
    return made


@cache
def learner_address() -> int:
    """Where the machine code that follows a learned policy stands."""
    signature = types.int64(WORKSPACE_TYPE, KERNEL_TYPE)
    return address_of(compile_cached(follow_learned, signature, "learned rollouts", *_folders()))


@cache
def compiled_choice() -> CompiledDecide:
    """The compiled decision by a plan that may follow the learned policy."""
    return compile_cached(
        choose_by_learned_plan, DECIDE_SIGNATURE, choose_by_learned_plan.__qualname__, *_folders()
    )


def _folders() -> tuple[str, ...]:
    return (*FOLDERS, "inference/lookahead")
