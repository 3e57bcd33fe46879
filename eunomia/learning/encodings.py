"""Action encodings by name: what a trainer's action means as starts on accelerators.

All act on a padded set of N waiting sub-jobs (in order of deadline, padding masked) and S accelerators, and have a way
to hold. Decoding is deterministic: ties go to the earlier sub-job, then to the accelerator of least index.

| name | action | meaning |
|---|---|---|
| `pair` | one of N S + 1 | one (sub-job, accelerator); a busy accelerator, or the last number, holds until the next event |
| `idle_pair` | the same numbers | only idle accelerators are allowed |
| `priority_eft` | one of N + 1 | one sub-job, on the accelerator of its earliest finish; busy = hold; the last number holds |
| `start_eft` | the same numbers | only sub-jobs whose accelerator of the earliest finish is idle; where none is, nobody is asked |
| `branch` | S numbers of N + 1 | a sub-job, or nothing, for every accelerator; of two equal choices the first one counts |
| `priority_scores` | N (1 + S) reals in [-1, 1] | priority and S scores per sub-job; highest priority first, each to its best-scored accelerator; busy or a negative priority = hold |
| `priority_bin` | N 2 reals in [-1, 1] | priority, and one number cut into S ranges |

The mask of an encoding says which numbers are allowed (all, for real-valued ones).
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eunomia.core.arrays import Flags, Floats
from eunomia.core.errors import UnknownNameError

Starts = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Choice:
    """What can be chosen from: ``can`` (N, S) pairs that could run, ``idle`` (S,), ``finish_s`` (N, S) estimates."""

    can: Flags
    idle: Flags
    finish_s: Floats


@dataclass(frozen=True)
class Encoding:
    """``shape(N, S)``: number of choices, or shape of a real-valued action; ``mask`` is None where all is allowed."""

    name: str
    kind: str  # discrete, multi_discrete or box
    shape: Callable[[int, int], tuple[int, ...]]
    decode: Callable[[Any, Choice], Starts]
    mask: Callable[[Choice], Flags] | None
    asks: bool = True  # a stage asks even where nothing but to hold is allowed


def _pair(action: Any, choice: Choice) -> Starts:
    n, lanes = choice.can.shape
    if int(action) >= n * lanes:
        return []
    i, s = divmod(int(action), lanes)
    return [(i, s)] if choice.can[i, s] and choice.idle[s] else []


def _pair_mask(choice: Choice) -> Flags:
    return np.append(choice.can.ravel(), True)


def _idle_pair_mask(choice: Choice) -> Flags:
    return np.append((choice.can & choice.idle).ravel(), True)


def _eft(action: Any, choice: Choice) -> Starts:
    i = int(action)
    if i >= len(choice.can) or not choice.can[i].any():
        return []
    finish_s = np.where(choice.can[i], choice.finish_s[i], np.inf)
    best = np.flatnonzero(finish_s == finish_s.min())
    s = int(best[np.argmax(choice.idle[best])])
    return [(i, s)] if choice.idle[s] else []


def _eft_mask(choice: Choice) -> Flags:
    return np.append(choice.can.any(axis=1), True)


def _start_mask(choice: Choice) -> Flags:
    finish_s = np.where(choice.can, choice.finish_s, np.inf)
    soonest = choice.can & (finish_s == finish_s.min(axis=1, keepdims=True))
    return np.append((soonest & choice.idle).any(axis=1), True)


def _branch(action: Any, choice: Choice) -> Starts:
    starts: Starts = []
    for s, i in enumerate(np.asarray(action, np.int64).tolist()):
        taken = {job for job, _ in starts}
        if i < len(choice.can) and i not in taken and choice.idle[s] and choice.can[i, s]:
            starts.append((i, s))
    return starts


def _branch_mask(choice: Choice) -> Flags:
    allowed = choice.can & choice.idle
    return np.vstack([allowed, np.ones((1, allowed.shape[1]), np.bool_)]).T.copy()


def _in_order(priority: Floats, scores: Floats, choice: Choice) -> Starts:
    """Highest priority first, each to its best-scored accelerator; who finds it taken or busy waits."""
    starts: Starts = []
    idle = choice.idle.copy()
    for i in np.argsort(-priority, kind="stable").tolist():
        if not choice.can[i].any() or priority[i] < 0.0:
            continue
        s = int(np.argmax(np.where(choice.can[i], scores[i], -np.inf)))
        if idle[s]:
            starts.append((i, s))
            idle[s] = False
    return starts


def _scores(action: Any, choice: Choice) -> Starts:
    n, lanes = choice.can.shape
    table = np.asarray(action, np.float64).reshape(n, 1 + lanes)
    return _in_order(table[:, 0], table[:, 1:], choice)


def _bins(action: Any, choice: Choice) -> Starts:
    n, lanes = choice.can.shape
    table = np.asarray(action, np.float64).reshape(n, 2)
    place = np.clip(((table[:, 1] + 1.0) / 2.0 * lanes).astype(np.int64), 0, lanes - 1)
    away = np.abs(np.arange(lanes)[None, :] - place[:, None]).astype(np.float64)
    return _in_order(table[:, 0], -away, choice)


ENCODINGS: dict[str, Encoding] = {
    encoding.name: encoding
    for encoding in (
        Encoding("pair", "discrete", lambda n, s: (n * s + 1,), _pair, _pair_mask),
        Encoding("idle_pair", "discrete", lambda n, s: (n * s + 1,), _pair, _idle_pair_mask),
        Encoding("priority_eft", "discrete", lambda n, s: (n + 1,), _eft, _eft_mask),
        Encoding("start_eft", "discrete", lambda n, s: (n + 1,), _eft, _start_mask, asks=False),
        Encoding("branch", "multi_discrete", lambda n, s: (s, n + 1), _branch, _branch_mask),
        Encoding("priority_scores", "box", lambda n, s: (n, 1 + s), _scores, None),
        Encoding("priority_bin", "box", lambda n, s: (n, 2), _bins, None),
    )
}


def encoding(name: str) -> Encoding:
    """An encoding by name; raises UnknownNameError."""
    if name not in ENCODINGS:
        raise UnknownNameError("action encoding", name, ENCODINGS)
    return ENCODINGS[name]
