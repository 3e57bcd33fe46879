"""From branch values to starts, and to the target of learning; NumPy, no torch.

Q_d(a) = V + A_d(a) - mean over allowed a of A_d(a), for branch d = accelerator; the last action is to hold.
Branches of busy accelerators are not asked and take no part in means.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Whole = npt.NDArray[np.int64]


def duel(value: float, advantage: Floats, mask: Flags) -> Floats:
    """(S, N + 1) values; -inf where the mask forbids."""
    count = np.maximum(mask.sum(axis=1), 1)
    mean = np.where(mask, advantage, 0.0).sum(axis=1) / count
    return np.where(mask, value + advantage - mean[:, None], -np.inf)


def asked_branches(mask: Flags) -> Flags:
    """(S,) branches that have something to choose: more than to hold."""
    return np.asarray(mask[..., :-1].any(axis=-1))


def resolve(q: Floats, mask: Flags) -> Whole:
    """(S,) actions without conflicts. Of branches that want one sub-job, the one that would lose most by its
    next-best action gets it (ties: least index); the others choose again without it. Holding never conflicts.
    """
    lanes, hold = q.shape[0], q.shape[1] - 1
    left = np.where(mask, q, -np.inf)
    chosen = np.full(lanes, hold, np.int64)
    open_ = set(np.flatnonzero(asked_branches(mask)).tolist())
    while open_:
        wants = {d: int(np.argmax(left[d])) for d in sorted(open_)}
        winner = max(open_, key=lambda d: (wants[d] == hold, _regret(left[d]), -d))
        chosen[winner] = wants[winner]
        open_.remove(winner)
        if wants[winner] != hold:
            left[:, wants[winner]] = -np.inf
    return chosen


def _regret(values: Floats) -> float:
    """Greatest minus next-best value; inf with a single choice left."""
    best = np.sort(values[np.isfinite(values)])
    return float(best[-1] - best[-2]) if len(best) > 1 else np.inf


def target(
    reward: float, gamma: float, ended: bool, q_next: Floats, q_next_target: Floats, mask_next: Flags
) -> float:
    """y = r + gamma mean over asked branches of Q'_d(argmax_a Q_d(a)): double Q-learning with mean over branches."""
    asked = np.flatnonzero(asked_branches(mask_next))
    if ended or not len(asked):
        return reward
    best = np.argmax(np.where(mask_next, q_next, -np.inf)[asked], axis=1)
    return reward + gamma * float(q_next_target[asked, best].mean())
