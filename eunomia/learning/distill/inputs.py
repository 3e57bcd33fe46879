"""What rules may ask about: all named features of the observation, side by side, with words for the reader.

One row is (JOB | PAIR | GLOBAL | SHARE). ``order`` rules see the sub-job and the platform; ``place`` and ``start``
rules also the sub-job on one accelerator; ``start`` rules alone what the start costs.
"""

from __future__ import annotations

from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE
from eunomia.learning.policy.trees import GLOBAL_AT, SHARE_AT

NAMES = (*JOB, *PAIR, *GLOBAL, *SHARE)
MAY_ASK = {
    "order": (*range(len(JOB)), *range(GLOBAL_AT, SHARE_AT)),
    "place": tuple(range(SHARE_AT)),
    "start": tuple(range(len(NAMES))),
}
PARTS = tuple(MAY_ASK)
VALUES = {
    "order": "added to the score, in mean isolated times; the highest score is served first",
    "place": "added to the worth of an accelerator, in units of its least finish time; the highest is taken",
    "start": "added to the bandwidth gate, in shares of B; below 0 the sub-job is held",
}
MEANINGS = {
    "time_left": "time to the deadline, in mean isolated times",
    "laxity": "time to spare if all goes well, in mean isolated times",
    "work": "remaining work, in mean isolated times",
    "bytes": "remaining traffic at full bandwidth, in mean isolated times",
    "age": "time since arrival, in mean isolated times",
    "hopeless": "1 if the deadline is out of reach",
    "laxity_ratio": "half of (time to spare / remaining work), -1 to 1.5",
    "time_ratio": "a quarter of (time left / least time needed), 0 to 2",
    "near": "time left / 120 mean layers, -2 to 4",
    "sjf_pressure": "work of all shorter requests / time to spare, 0 to 3",
    "edf_pressure": "work of all earlier deadlines / time to spare, 0 to 3",
    "sjf_bytes_pressure": "traffic of all shorter requests / time to spare, 0 to 3",
    "edf_bytes_pressure": "traffic of all earlier deadlines / time to spare, 0 to 3",
    "done": "share of the request that is done",
    "tightness": "log of (deadline / isolated time) at arrival",
    "intensity": "share of B that the rest of the request asks for",
    "size": "log of remaining work, in mean isolated times",
    "cost": "log of remaining work and traffic, in mean isolated times",
    "rested": "time since its last layer, in mean isolated times, 0 to 4",
    "started": "1 once a layer of the request has run",
    "gap": "target - measured indicator of its (tenant, network) pair",
    "shortfall": "what the pair lacks, 0 if nothing",
    "below": "1 if the pair is below its target",
    "lost": "1 if the pair is far below its target",
    "target": "hit rate that the pair was promised, 0 = none",
    "filled": "requests in the pair's window / 100, at most 1",
    "gap_deadline": "gap times relative deadline, in mean isolated times",
    "weight": "log of the tenant's weight",
    "owed": "log(1 + hits that the pair lacks in its window)",
    "spare": "log(1 + hits that the pair can spare in its window)",
    "sinks": "1 if the promise is kept and one more miss would break it",
    "thin": "1 if the promise is kept and one to three more misses would break it",
    "close": "1 if the promise is broken by less than two hits",
    "whole": "log of isolated time, in mean isolated times",
    "needy_whole": "whole where a miss would leave the promise broken",
    "needy_size": "size where a miss would leave the promise broken",
    "slower": "log of (time here / time on the fastest type)",
    "later": "finish here / earliest finish - 1, at most 4",
    "demand": "share of B that the layer takes here",
    "overflow": "share of B by which demand would exceed B",
    "laxity_after": "laxity_ratio after the delay that this accelerator adds",
    "would_miss": "1 if the deadline is out of reach from here",
    "switch": "1 if another request ran here last",
    "demand_share": "share of B that running layers take",
    "idle": "share of accelerators that are idle",
    "waiting": "waiting requests per accelerator",
    "backlog": "waiting work per accelerator, in mean isolated times",
    "bytes_backlog": "waiting traffic at full bandwidth, in mean isolated times",
    "hopeless_share": "share of waiting requests that are hopeless",
    "mean_laxity": "mean time to spare of feasible requests, in mean isolated times",
    "crowded": "share of requests that would be late if earlier ones all went first",
    "own_loss": "share of its speed that the layer would lose",
    "others_loss": "speeds that the start takes from running layers, summed",
    "standing_loss": "speeds that running layers lose before the start, summed, at most 4",
    "even": "1 if the smallest demands are met in full (max_min, roofline)",
    "cut": "1 if small demands lose the most (weighted, moca_literal)",
}
