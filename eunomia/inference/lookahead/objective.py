"""What a rollout is worth: hits, or SLO attainment and its like (objectives of the operator)."""

from __future__ import annotations

from eunomia.contract.objectives import TENANT
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.lookahead.memory import Workspace, pair_state_at

OBJECTIVES = ("hits", *TENANT)  # in the order of the numbers below
HITS, ATTAINMENT, SHORTFALL, MAX_MIN = range(4)
TIE = 1e-3  # weight of one hit where promises count


@jitted
def clear_tally(ws: Workspace) -> None:
    """Forget the outcomes of earlier rollouts."""
    ws.loss = 0.0
    ws.misses = 0
    ws.spent = 0.0
    for pair in range(ws.num_pairs):
        pair_state_at(ws, pair).hits = pair_state_at(ws, pair).misses = 0


@jitted
def worth(ws: Workspace) -> float:
    """Value of the tallied rollouts; greatest is best.

    hits: minus the requests lost, so that 0 is perfect. Others, over the pairs with a hit-rate target, with
    x = (hits in the SLO window + predicted hits) / (requests in the window + predicted): attainment = pairs with
    x >= target; shortfall = - sum of max(0, target - x); max_min = least x - target. A lost request costs
    TIE besides, which decides between plans that keep the same promises.
    """
    if ws.objective == HITS:
        return -ws.loss  # type: ignore[no-any-return]
    met, short, least = 0.0, 0.0, 0.0
    for pair in range(ws.num_pairs):
        state = pair_state_at(ws, pair)
        counted = state.counted + state.hits + state.misses
        if state.target != state.target or counted == 0:
            continue
        gap = state.target - (state.good + state.hits) / counted
        met += 1.0 if gap <= 1e-12 else 0.0
        short += max(0.0, gap)
        least = min(least, -gap)
    value = met if ws.objective == ATTAINMENT else (-short if ws.objective == SHORTFALL else least)
    return value - TIE * ws.loss  # type: ignore[no-any-return]
