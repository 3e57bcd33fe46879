"""The observation: which numbers a learned policy sees, by name, in order, with a version.

*Job* features describe one waiting sub-job among all that wait, *pair* features a sub-job on an accelerator,
*global* features the platform. *Start* features (a selection of the others) and *share* features decide
whether to start now or hold. Every number is dimensionless: times over ``scale``, the mean isolated time of
the waiting requests, bandwidths over B. Ratios are clipped, so unseen platforms, networks and numbers of
tenants give numbers of the usual size. No feature names a network or a tenant.

Symbols: t now; a arrival; d deadline; path remaining critical path; work remaining work; iso isolated time (all
best case); layer = mean over waiting requests of iso / layers; S accelerators; B bandwidth; V bytes left;
D demand of what runs; laxity = d - t - path. ``ahead`` of a request are the feasible waiting requests that go
before it: with less work (sjf) or an earlier deadline (edf). A request with several waiting sub-jobs counts once,
as its latest one describes it.

Does badly where the clipped range hides the difference: deadlines beyond a thousand mean isolated times look alike.
"""

from __future__ import annotations

VERSION = 2  # of names, order and formulas; a policy trained on another one is refused

JOB = (
    "time_left",  # (d - t) / scale, clipped to +-1000; the order of EDF
    "laxity",  # laxity / scale, clipped to +-1000; the order of LLF
    "work",  # work / scale; the order of SJF
    "bytes",  # V / B / scale
    "age",  # (t - a) / scale, at most 1000
    "hopeless",  # 1 if the deadline is out of reach
    "laxity_ratio",  # 0.5 clip(laxity / (work + layer), -2, 3)
    "time_ratio",  # clip((d - t) / (path + layer), 0, 8) / 4
    "near",  # clip((d - t) / (120 layer), -2, 4)
    "sjf_pressure",  # min(3, (work ahead / S) / max(laxity, layer / 2)), shortest first
    "edf_pressure",  # the same, earliest deadline first
    "sjf_bytes_pressure",  # min(3, (bytes ahead / B) / max(laxity, layer / 2)), shortest first
    "edf_bytes_pressure",  # the same, earliest deadline first
    "done",  # 1 - work / iso, in 0..1
    "tightness",  # clip(log((d - a) / iso), -2, 4)
    "intensity",  # min(4, V / B / work): share of B that the rest asks for
    "size",  # clip(log(work / scale), -4, 4)
    "cost",  # clip(log((work / S + V / B) / (scale / S)), -4, 4)
    "rested",  # (t - end of its last layer) / scale, at most 4
    "started",  # 1 once a layer has run
    "gap",  # target - indicator, clipped to +-1; 0 without target or data
    "shortfall",  # max(0, gap)
    "below",  # 1 if gap > -0.02 with target and data
    "lost",  # 1 if gap > 0.25
    "target",  # hit rate (or other target, at most 1); 0 = none
    "filled",  # min(1, requests in the window / 100)
    "gap_deadline",  # gap min(1000, (d - a) / scale), gap = -1 without target or data: the order ``shift``
    "weight",  # log of the tenant's weight, clipped to +-4
    "owed",  # log(1 + n max(0, gap)), at most 4; n requests in the window, gap 0 without target or data
    "spare",  # log(1 + n max(0, -gap)), at most 4
    "sinks",  # 1 if the promise is kept, and one more miss would break it: 0 <= -n gap < 1
    "thin",  # 1 if it is kept, and the third miss would break it at the latest: 1 <= -n gap < 3
    "close",  # 1 if it is broken by little: 0 < n gap < 2
    "whole",  # clip(log(iso / scale), -4, 4)
    "needy_whole",  # whole where a miss would leave the promise broken (-n gap < 1), else 0
    "needy_size",  # size there, else 0
)
(TIME_LEFT, LAXITY, WORK, BYTES, AGE, HOPELESS, LAXITY_RATIO, TIME_RATIO, NEAR, SJF_PRESSURE, EDF_PRESSURE,
 SJF_BYTES_PRESSURE, EDF_BYTES_PRESSURE, DONE, TIGHTNESS, INTENSITY, SIZE, COST, RESTED, STARTED, GAP, SHORTFALL,
 BELOW, LOST, TARGET, FILLED, GAP_DEADLINE, WEIGHT, OWED, SPARE, SINKS, THIN, CLOSE, WHOLE, NEEDY_WHOLE,
 NEEDY_SIZE) = range(len(JOB))  # fmt: skip

PAIR = (
    "slower",  # log(c / least c)
    "later",  # min(4, finish / least finish - 1), finish = (time left of the running layer + c) max(1, D/B)
    "demand",  # min(4, b / B)
    "overflow",  # min(4, max(0, D + b - B) / B)
    "laxity_after",  # 0.5 clip((laxity - (finish - least c)) / (work + layer), -2, 3)
    "would_miss",  # 1 if laxity < finish - least c
    "switch",  # 1 if the accelerator last ran another request
)
SLOWER, LATER, DEMAND, OVERFLOW, LAXITY_AFTER, WOULD_MISS, SWITCH = range(len(PAIR))

GLOBAL = (
    "demand_share",  # min(4, D / B)
    "idle",  # idle accelerators / S
    "waiting",  # min(8, waiting requests / S)
    "backlog",  # min(16, work of all feasible waiting requests / S / scale)
    "bytes_backlog",  # min(16, their bytes / B / scale)
    "hopeless_share",  # of the waiting requests
    "mean_laxity",  # clip(mean laxity of the feasible ones / scale, 0, 8)
    "crowded",  # share of feasible requests with edf_pressure or edf_bytes_pressure above 1
)
DEMAND_SHARE, IDLE, WAITING, BACKLOG, BYTES_BACKLOG, HOPELESS_SHARE, MEAN_LAXITY, CROWDED = range(len(GLOBAL))

# What the decision to start or to hold reads: all pair and global features, and these of the sub-job.
START_JOB = (
    LAXITY_RATIO,
    TIME_RATIO,
    EDF_PRESSURE,
    SJF_PRESSURE,
    EDF_BYTES_PRESSURE,
    INTENSITY,
    SIZE,
    SHORTFALL,
    OWED,
    SPARE,
    SINKS,
)
START = (*PAIR, *GLOBAL, *(JOB[index] for index in START_JOB))

# What the decision to start reads beside those: the price of the start, in the platform's own way of sharing
# (observation/sharing.py). Rates are work per second, 1 for a layer that is alone; urgencies are taken to be equal.
SHARE = (
    "own_loss",  # 1 - rate of the layer, once it runs
    "others_loss",  # what it takes from the rates of those that run, their sum, clipped to +-4
    "standing_loss",  # min(4, sum of 1 - rate over what runs before it starts)
    "even",  # 1 where the smallest demands are met in full (max_min, roofline)
    "cut",  # 1 where small demands lose the most (weighted, moca_literal)
)

LOST_GAP = 0.25
MARGIN = 0.02
FAR = 1000.0
