"""Our own set network as the engine takes it: Deep Sets over sub-jobs and accelerators, in RELMAS' place; no PyTorch.

    u_j = (features of the sub-job, of the platform; mean and maximum over accelerators of l_js)
    e_j = g(u_j W + w);  k_j = g(e_j A + mean e M + max e Q + b);  o_j = k_j V + v;  g(a) = a / (1 + |a|)
    priority = tanh o_j1;  margin = tanh o_j2;  score of s = tanh (l_js . (o_j3, o_j4, o_j5))

l_js: time, demand and time until free of accelerator s (features.py, ``EACH``). Neither the order of sub-jobs nor that
of accelerators matters, nor how many there are. What actions mean (order, place, hold): decide.py; a start changes what
the next one of its instant sees of accelerators and demand, though not the network's answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from eunomia.core.arrays import Floats
from eunomia.learning.agents.ddpg.act import N_EACH, SCORES
from eunomia.learning.agents.ddpg.features import inputs, names
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.agents.served import Shapes


def width_of(promises: bool) -> int:
    """Numbers in u_j."""
    return inputs(0, promises) + 2 * N_EACH


def shapes(units: int, promises: bool) -> Shapes:
    """Names and shapes of all tensors, in the order in which compiled code reads them."""
    outs = SCORES + N_EACH
    inner = {"first": (width_of(promises), units), "first_bias": (units,), "mix": (3 * units, units)}
    return {**inner, "mix_bias": (units,), "out": (units, outs), "out_bias": (outs,)}


class SetPolicy(RelmasPolicy):
    """Decides at every event, or every T_s, for any number of accelerators. ``lanes``: those that it saw last."""

    FAMILY, KIND, WIDTH = "sets", "sets", "first_bias"
    NOTED = RelmasPolicy.NOTED[1:]

    def about(self, tensors: Mapping[str, Floats]) -> tuple[int, bool]:
        """Any number of accelerators; whether promises are seen."""
        return 0, len(tensors.get("first", ())) == width_of(True)

    def shapes_of(self, units: int) -> Shapes:
        """Of its tensors."""
        return shapes(units, self.promises)

    def features(self) -> tuple[str, ...]:
        """Those of one accelerator stand for all."""
        return names(1, self.promises)

    def _fits(self, lanes: int) -> None:
        if lanes != self.lanes:
            self.lanes = lanes
            self.head["width"] = inputs(lanes, self.promises)
