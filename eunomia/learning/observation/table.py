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

_JOB = {
    # (d - t) / scale, clipped to +-1000; the order of EDF
    "time_left": "time to the deadline, in mean isolated times",
    # laxity / scale, clipped to +-1000; the order of LLF
    "laxity": "time to spare if all goes well, in mean isolated times",
    "work": "remaining work, in mean isolated times",  # work / scale; the order of SJF
    "bytes": "remaining traffic at full bandwidth, in mean isolated times",  # V / B / scale
    "age": "time since arrival, in mean isolated times",  # (t - a) / scale, at most 1000
    "hopeless": "1 if the deadline is out of reach",
    "laxity_ratio": "half of (time to spare / remaining work), -1 to 1.5",  # 0.5 clip(laxity / (work + layer), -2, 3)
    "time_ratio": "a quarter of (time left / least time needed), 0 to 2",  # clip((d - t) / (path + layer), 0, 8) / 4
    "near": "time left / 120 mean layers, -2 to 4",  # clip((d - t) / (120 layer), -2, 4)
    # min(3, (work ahead / S) / max(laxity, layer / 2)), shortest first
    "sjf_pressure": "work of all shorter requests / time to spare, 0 to 3",
    "edf_pressure": "work of all earlier deadlines / time to spare, 0 to 3",  # the same, earliest deadline first
    # min(3, (bytes ahead / B) / max(laxity, layer / 2)), shortest first
    "sjf_bytes_pressure": "traffic of all shorter requests / time to spare, 0 to 3",
    # the same, earliest deadline first
    "edf_bytes_pressure": "traffic of all earlier deadlines / time to spare, 0 to 3",
    "done": "share of the request that is done",  # 1 - work / iso, in 0..1
    "tightness": "log of (deadline / isolated time) at arrival",  # clip(log((d - a) / iso), -2, 4)
    "intensity": "share of B that the rest of the request asks for",  # min(4, V / B / work)
    "size": "log of remaining work, in mean isolated times",  # clip(log(work / scale), -4, 4)
    # clip(log((work / S + V / B) / (scale / S)), -4, 4)
    "cost": "log of remaining work and traffic, in mean isolated times",
    # (t - end of its last layer) / scale, at most 4
    "rested": "time since its last layer, in mean isolated times, 0 to 4",
    "started": "1 once a layer of the request has run",
    # target - indicator, clipped to +-1; 0 without target or data
    "gap": "target - measured indicator of its (tenant, network) pair",
    "shortfall": "what the pair lacks, 0 if nothing",  # max(0, gap)
    "below": "1 if the pair is below its target",  # 1 if gap > -0.02 with target and data
    "lost": "1 if the pair is far below its target",  # 1 if gap > 0.25
    "target": "hit rate that the pair was promised, 0 = none",  # hit rate (or other target, at most 1); 0 = none
    "filled": "requests in the pair's window / 100, at most 1",  # min(1, requests in the window / 100)
    # gap min(1000, (d - a) / scale), gap = -1 without target or data: the order ``shift``
    "gap_deadline": "gap times relative deadline, in mean isolated times",
    "weight": "log of the tenant's weight",  # log of the tenant's weight, clipped to +-4
    # log(1 + n max(0, gap)), at most 4; n requests in the window, gap 0 without target or data
    "owed": "log(1 + hits that the pair lacks in its window)",
    "spare": "log(1 + hits that the pair can spare in its window)",  # log(1 + n max(0, -gap)), at most 4
    # 1 if the promise is kept, and one more miss would break it: 0 <= -n gap < 1
    "sinks": "1 if the promise is kept and one more miss would break it",
    # 1 if it is kept, and the third miss would break it at the latest: 1 <= -n gap < 3
    "thin": "1 if the promise is kept and one to three more misses would break it",
    "close": "1 if the promise is broken by less than two hits",  # 1 if it is broken by little: 0 < n gap < 2
    "whole": "log of isolated time, in mean isolated times",  # clip(log(iso / scale), -4, 4)
    # whole where a miss would leave the promise broken (-n gap < 1), else 0
    "needy_whole": "whole where a miss would leave the promise broken",
    "needy_size": "size where a miss would leave the promise broken",  # size there, else 0
}
JOB = tuple(_JOB)
(TIME_LEFT, LAXITY, WORK, BYTES, AGE, HOPELESS, LAXITY_RATIO, TIME_RATIO, NEAR, SJF_PRESSURE, EDF_PRESSURE,
 SJF_BYTES_PRESSURE, EDF_BYTES_PRESSURE, DONE, TIGHTNESS, INTENSITY, SIZE, COST, RESTED, STARTED, GAP, SHORTFALL,
 BELOW, LOST, TARGET, FILLED, GAP_DEADLINE, WEIGHT, OWED, SPARE, SINKS, THIN, CLOSE, WHOLE, NEEDY_WHOLE,
 NEEDY_SIZE) = range(len(JOB))  # fmt: skip

# What needs a logarithm, and what a promise adds: left out where nothing reads it. Promises need logarithms.
PROMISED = (*range(GAP, WHOLE), NEEDY_WHOLE, NEEDY_SIZE)
LOGARITHMS = (TIGHTNESS, SIZE, COST, WHOLE, *PROMISED)

_PAIR = {
    "slower": "log of (time here / time on the fastest type)",  # log(c / least c)
    # min(4, finish / least finish - 1), finish = (time left of the running layer + c) max(1, D/B)
    "later": "finish here / earliest finish - 1, at most 4",
    "demand": "share of B that the layer takes here",  # min(4, b / B)
    "overflow": "share of B by which demand would exceed B",  # min(4, max(0, D + b - B) / B)
    # 0.5 clip((laxity - (finish - least c)) / (work + layer), -2, 3)
    "laxity_after": "laxity_ratio after the delay that this accelerator adds",
    "would_miss": "1 if the deadline is out of reach from here",  # 1 if laxity < finish - least c
    "switch": "1 if another request ran here last",  # 1 if the accelerator last ran another request
}
PAIR = tuple(_PAIR)
SLOWER, LATER, DEMAND, OVERFLOW, LAXITY_AFTER, WOULD_MISS, SWITCH = range(len(PAIR))

_GLOBAL = {
    "demand_share": "share of B that running layers take",  # min(4, D / B)
    "idle": "share of accelerators that are idle",  # idle accelerators / S
    "waiting": "waiting requests per accelerator",  # min(8, waiting requests / S)
    # min(16, work of all feasible waiting requests / S / scale)
    "backlog": "waiting work per accelerator, in mean isolated times",
    "bytes_backlog": "waiting traffic at full bandwidth, in mean isolated times",  # min(16, their bytes / B / scale)
    "hopeless_share": "share of waiting requests that are hopeless",  # of the waiting requests
    # clip(mean laxity of the feasible ones / scale, 0, 8)
    "mean_laxity": "mean time to spare of feasible requests, in mean isolated times",
    # share of feasible requests with edf_pressure or edf_bytes_pressure above 1
    "crowded": "share of requests that would be late if earlier ones all went first",
}
GLOBAL = tuple(_GLOBAL)
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
# (inference/policies/sharing.py). Rates are work per second, 1 for a layer that is alone; urgencies count as equal.
_SHARE = {
    "own_loss": "share of its speed that the layer would lose",  # 1 - rate of the layer, once it runs
    # what it takes from the rates of those that run, their sum, clipped to +-4
    "others_loss": "speeds that the start takes from running layers, summed",
    # min(4, sum of 1 - rate over what runs before it starts)
    "standing_loss": "speeds that running layers lose before the start, summed, at most 4",
    # 1 where the smallest demands are met in full (max_min, roofline)
    "even": "1 if the smallest demands are met in full (max_min, roofline)",
    # 1 where small demands lose the most (weighted, moca_literal)
    "cut": "1 if small demands lose the most (weighted, moca_literal)",
}
SHARE = tuple(_SHARE)

LOST_GAP = 0.25
MARGIN = 0.02
FAR = 1000.0

MEANINGS = {**_JOB, **_PAIR, **_GLOBAL, **_SHARE}  # in words; the formulas stand beside them
