"""What rules may ask about: all named features of the observation, side by side, with words for the reader.

One row is (JOB | PAIR | GLOBAL | SHARE). ``order`` rules see the sub-job and the platform; ``place`` and ``start``
rules also the sub-job on one accelerator; ``start`` rules alone what the start costs.
"""

from __future__ import annotations

from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE
from eunomia.learning.policy.formula import GLOBAL_AT, SHARE_AT

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
