"""The pointer of PPO and SAC without PyTorch: its network in NumPy, called with Views, and its card.

Formulas: pointer.py, which this is tested to equal, decision by decision. Greedy: the action of the greatest logit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Flags, Floats
from eunomia.learning.agents.served import Served, Shapes, relu
from eunomia.learning.encodings import Choice, encoding
from eunomia.learning.gym.stage import BOUND
from eunomia.learning.observation.plain import observe
from eunomia.learning.observation.table import DEMAND_SHARE, GLOBAL, HOPELESS, JOB, NEAR, VERSION

REACH = 5.0  # inputs are clipped to +-REACH
HASTE, LOST, STEEP = 30.0, 300.0, 20.0  # of the rule that it begins with: pointer.py


def shapes(units: int) -> Shapes:
    """Names and shapes of all tensors, as PyTorch has them: a layer is (out, in)."""
    context = 2 * units + len(GLOBAL)
    widths = {"inner.0": (units, len(JOB)), "inner.2": (units, units), "rho.0": (units, units + context),
              "rho.2": (1, units), "hold.0": (units, context), "hold.2": (1, units)}  # fmt: skip
    weights = {f"{name}.weight": shape for name, shape in widths.items()}
    return weights | {f"{name}.bias": (shape[0],) for name, shape in widths.items()}


class PointerPolicy(Served):
    """Chooses a sub-job or holds, one at a time; the accelerator is that of its earliest finish.

    A policy in Python: for use in earnest, wrap it in ``Guarded``. Sees the ``most`` most urgent sub-jobs; when nothing
    runs and it holds, the most urgent one starts. Raises ConfigError for a missing tensor or a wrong shape.
    """

    FAMILY, VERSION = "pointer", VERSION + 1  # before, another rule was added to
    FEATURES = {"job": JOB, "global": GLOBAL}
    NOTED, GIVEN, WIDTH = ("most",), ("most",), "inner.0.bias"

    def __init__(self, tensors: Mapping[str, Floats], name: str = "pointer", most: int = 32) -> None:
        self.most = most
        super().__init__(tensors, name, shapes)

    def logits(self, jobs: Floats, overall: Floats, allowed: Flags) -> Floats:
        """(N + 1,) for (N, JOB) and (GLOBAL,) features; the last one is to hold, -inf where it is not ``allowed``."""
        seen, whole = np.clip(jobs, -REACH, REACH), np.clip(overall, -REACH, REACH)
        hidden = relu(self._layer("inner.2", relu(self._layer("inner.0", seen))))
        context = np.concatenate([hidden.mean(axis=0), hidden.max(axis=0), whole])
        wide = np.hstack([hidden, np.repeat(context[None, :], len(jobs), axis=0)])
        score = self._layer("rho.2", relu(self._layer("rho.0", wide)))[:, 0]
        rule = -HASTE * jobs[:, NEAR] - LOST * jobs[:, HOPELESS]
        hold = self._layer("hold.2", relu(self._layer("hold.0", context)))[0]
        hold += rule[allowed[:-1]].max(initial=-1e9) + STEEP * (overall[DEMAND_SHARE] - 1.0)
        return np.where(allowed, np.append(score + rule, hold), -np.inf)

    def _layer(self, name: str, x: Floats) -> Floats:
        return np.asarray(x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"], np.float64)

    def __call__(self, view: View) -> list[Assign]:
        """At most one start for a View."""
        features, overall = observe(view)
        ready = view.ready
        jobs = np.lexsort([ready["sequence"], ready["request"], ready["deadline_s"]])[: self.most]
        finish_s = (view.accelerators["free_in_s"] + view.latency_s[jobs]) * view.slowdown
        idle = view.accelerators["request"] < 0
        choice = Choice(np.isfinite(view.latency_s[jobs]), idle, finish_s)
        clipped, starting = np.clip(features[jobs], -BOUND, BOUND), encoding("start_eft")
        assert starting.mask is not None, "not all is allowed"
        action = int(np.argmax(self.logits(clipped, overall, starting.mask(choice))))
        starts = starting.decode(action, choice)
        if not starts and idle.all():
            i, s = np.unravel_index(int(np.argmax(choice.can & idle)), choice.can.shape)
            starts = [(int(i), int(s))]
        return [view.assign(int(jobs[i]), s) for i, s in starts]
