"""A branching policy without torch: its network in NumPy, asked through Views.

h_i = relu(u_i W1 + b1), u_i = (job features, globals); z = relu((mean_i h_i, globals) Wz + bz)
V = z v + bv;  A_s(i) = relu((h_i, y_is, z) Wa_s + ba_s) wa_s + ca_s;  A_s(hold) = relu(z Wh_s + bh_s) wh_s + ch_s

Head tensors have a leading axis of branches: S, or 1 when one head serves all (unibranch: the pair features y tell
accelerators apart, and any number of them will do). Features are clipped to +-REACH.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.learning.agents.bdq.choose import Flags, Floats, duel, resolve
from eunomia.learning.card import Card, Parts, check_tensors
from eunomia.learning.observation.plain import observe, pair_features
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, TIME_LEFT, VERSION

REACH = 8.0


def shapes(units: int, heads: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors."""
    seen, joint = len(JOB) + len(GLOBAL), 2 * units + len(PAIR)
    return {
        "W1": (seen, units), "b1": (units,), "Wz": (units + len(GLOBAL), units), "bz": (units,), "v": (units,),
        "bv": (1,), "Wa": (heads, joint, units), "ba": (heads, units), "wa": (heads, units), "ca": (heads,),
        "Wh": (heads, units, units), "bh": (heads, units), "wh": (heads, units), "ch": (heads,),
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class BranchingWeights:
    """Tensors by name. Raises ConfigError for a missing one, a wrong shape, or a value that is not finite."""

    units: int
    heads: int
    tensors: dict[str, Floats]

    def __post_init__(self) -> None:
        check_tensors("branching", self.tensors, shapes(self.units, self.heads), finite=True)

    @property
    def parameters(self) -> int:
        """How many numbers."""
        return sum(value.size for value in self.tensors.values())

    def q(self, jobs: Floats, pairs: Floats, overall: Floats, mask: Flags) -> Floats:
        """(S, N + 1) values for (N, JOB), (N, S, PAIR), (GLOBAL,) features and (S, N + 1) allowed actions."""
        t, lanes = self.tensors, pairs.shape[1]
        jobs, pairs, overall = (np.clip(a, -REACH, REACH) for a in (jobs, np.nan_to_num(pairs), overall))
        everyone = np.hstack([jobs, np.repeat(overall[None, :], len(jobs), axis=0)])
        hidden = _relu(everyone @ t["W1"] + t["b1"])
        z = _relu(np.concatenate([hidden.mean(axis=0), overall]) @ t["Wz"] + t["bz"])
        advantage = np.empty((lanes, len(jobs) + 1))
        for s in range(lanes):
            d = s if self.heads > 1 else 0
            joint = np.hstack([hidden, pairs[:, s], np.repeat(z[None, :], len(jobs), axis=0)])
            advantage[s, :-1] = _relu(joint @ t["Wa"][d] + t["ba"][d]) @ t["wa"][d] + t["ca"][d]
            advantage[s, -1] = _relu(z @ t["Wh"][d] + t["bh"][d]) @ t["wh"][d] + t["ch"][d]
        return duel(float(z @ t["v"] + t["bv"][0]), advantage, mask)


class BranchingPolicy:
    """Asks all idle accelerators at once; when nothing runs and all hold, the most urgent sub-job starts.

    A policy in Python: for use in earnest, wrap it in ``Guarded``. Sees the ``most`` most urgent sub-jobs.
    """

    FAMILY, VERSION = "branching", VERSION

    def __init__(self, weights: BranchingWeights, name: str = "branching", most: int = 64) -> None:
        self.weights, self.name, self.most = weights, name, most

    def __call__(self, view: View) -> list[Assign]:
        """Starts for one View. Raises ConfigError for another number of accelerators than there are heads."""
        lanes = len(view.accelerators)
        if self.weights.heads not in (1, lanes):
            raise ConfigError(
                f"policy '{self.name}' has {self.weights.heads} branches and the platform {lanes} accelerators; "
                "train one with a shared branch"
            )
        features, overall = observe(view)
        jobs = np.argsort(features[:, TIME_LEFT], kind="stable")[: self.most]
        running = float(view.system["demand_bytes_s"])
        pairs = np.stack([pair_features(view, int(i), running) for i in jobs])
        idle = view.accelerators["request"] < 0
        mask = np.ones((lanes, len(jobs) + 1), np.bool_)
        mask[:, :-1] = (np.isfinite(view.latency_s[jobs]) & idle).T
        chosen = resolve(self.weights.q(features[jobs], pairs, overall, mask), mask)
        starts = [view.assign(int(jobs[i]), s) for s, i in enumerate(chosen.tolist()) if i < len(jobs)]
        if not starts and idle.all():
            i = int(np.argmax(mask[:, :-1].any(axis=0)))
            starts = [view.assign(int(jobs[i]), int(np.argmin(view.latency_s[jobs[i]])))]
        return starts

    def parts(self) -> Parts:
        """What its card says of it."""
        w = self.weights
        kind = {"kind": "branching", "units": w.units, "heads": w.heads, "most": self.most}
        return Parts({"job": JOB, "pair": PAIR, "global": GLOBAL}, kind, w.tensors)

    @classmethod
    def of_card(cls, card: Card, tensors: dict[str, Floats]) -> BranchingPolicy:
        """The policy of a checked card."""
        policy = card["policy"]
        return cls(BranchingWeights(policy["units"], policy["heads"], tensors), card["name"], policy["most"])


def _relu(values: Floats) -> Floats:
    return np.maximum(values, 0.0)
