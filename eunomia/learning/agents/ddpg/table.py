"""What the LSTM sees of each waiting sub-job, by name, in order, with a version.

Sub-jobs come in order of deadline. S is the number of accelerators, fixed by a policy's training; layer is the mean
best-case time of all layers of the deployed networks; B the bandwidth; c and b time and demand of this layer.

Deviation D11: the papers name latency and bandwidth per sub-accelerator, the network, its layers, the deadline,
utilisation, and, for Fair/Firm, current and target indicator; scaling, clipping and the rest are ours. The
network is described by its remaining work instead of a one-hot number, so that unseen networks work.

Does badly: logarithms and clipping hide differences beyond e^4 mean layers; the list order is part of the input.
"""

from __future__ import annotations

VERSION = 1  # of names, order and formulas; a policy trained on another one is refused

JOB = (
    "slack",  # clip((d - t) / iso, -4, 8) / 4
    "urgency",  # min(4, path / (d - t)); 4 when the deadline is past
    "waiting",  # min(8, (t - ready) / layer) / 8
    "done",  # layers done / layers
    "hopeless",  # 1 if the deadline is out of reach
    "path",  # clip(log(path / layer), -3, 6) / 3, best case
    "work",  # the same of the remaining work, mean over accelerator types
    "bytes",  # clip(log(1 + bytes left / B / layer), 0, 6) / 3
)
EACH = (
    "time",  # clip(log(c / layer), -4, 4) / 2; 2 where it cannot run
    "demand",  # min(4, b / B)
    "free_in",  # min(8, estimated time left of the running layer / layer) / 4
)  # per accelerator: all times, then all demands, then all free_in
OVERALL = (
    "demand_share",  # min(4, D / B)
    "crowd",  # min(8, waiting sub-jobs / S) / 4
    "lost",  # share of hopeless ones
)
PROMISE = (
    "promised",  # 1 if the pair has a target
    "target",  # target, at most 1; 0 without
    "indicator",  # current indicator, clipped to 0..2; the target while there is no data
    "gap",  # signed shortfall, clipped to +-1
    "filled",  # min(1, requests in the window / 100)
)  # of the sub-job's (tenant, network) pair; Fair/Firm only


def inputs(lanes: int, promises: bool) -> int:
    """F: numbers per sub-job."""
    return len(JOB) + len(EACH) * lanes + len(OVERALL) + (len(PROMISE) if promises else 0)


def names(lanes: int, promises: bool) -> tuple[str, ...]:
    """The F names."""
    each = tuple(f"{name}[{s}]" for name in EACH for s in range(lanes))
    return (*JOB, *each, *OVERALL, *(PROMISE if promises else ()))
