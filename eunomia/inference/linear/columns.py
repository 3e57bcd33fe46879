"""What is kept of every waiting sub-job: one column per fact or feature, one place per entry of the waiting list."""

from __future__ import annotations

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, Record, number_at, term_at
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE
from eunomia.learning.policy.weights import NETWORK

N_JOB, N_PAIR, N_GLOBAL, N_SHARE = len(JOB), len(PAIR), len(GLOBAL), len(SHARE)

# Facts that stay while a sub-job waits; NEW = 1 where they were written at this decision.
SEQUENCE, NEW, REQUEST, ROW, DUE, ARRIVAL, PATH, WORK, DATA = range(9)
ISO, LAYER, LAST_RUN, WORK_S, BYTES_S, LOG_WORK, LOG_COST, LOG_ISO = range(9, 17)
# Of this decision. LATEST: place of the request's latest sub-job; MARGIN: what it adds to its start margin; MOST: the
# greatest MARGIN from here on, in order of score. FATE and AIM: what became of it, and its accelerator (notes.py).
LATE, LATEST, LEFT, SPARE, EDF_S, EDF_BYTES, SJF_S, SJF_BYTES = range(17, 25)
OUTSIDE, TIER, SCORE, MARGIN, MOST, FATE, AIM = range(25, 32)
X = 32  # features, in the order of JOB
COLUMNS = X + N_JOB

ORDERS = BY_DUE, BY_WORK, BY_SCORE = range(3)

# Places in system.memory: how many waited at the last decision, and how many there was room for.
KEPT, ROOM = 6, 7

# Numbers of one run: which features are needed; the most that pair features add to a start margin; what a decision
# works with; then the feature ``slower`` of each layer on each type, nan where it is not known yet.
WANTED = 0
PAIR_BOUND, BANDWIDTH, SCALE_S, LAYER_S = range(N_JOB, N_JOB + 4)
OVERALL = LAYER_S + 1
SEEN = OVERALL + N_GLOBAL  # pair features of the accelerator looked at, of the chosen one; share features
PAIRS = SEEN + N_PAIR
SHARES = PAIRS + N_PAIR
ROW_X = SHARES + N_SHARE  # features of one sub-job
HELD_PAIRS = ROW_X + N_JOB  # pair and share features of the last one that was held
HELD_SHARES = HELD_PAIRS + N_PAIR
WEIGHTS = HELD_SHARES + N_SHARE  # the policy's, as learning/policy/weights.py lays them out
LANES = WEIGHTS + NETWORK  # rows of (accelerators + types) numbers:
FREE_S, DEMAND, FINISH_S, RATES, TYPE_FREE_S, LANE_ROWS = range(6)


@jitted
def term(k: Kernel, column: int, place: int) -> Record:
    """One number of one waiting sub-job."""
    return term_at(k, column * k.node_capacity + place)


@jitted
def lane_number(k: Kernel, row: int, s: int) -> Record:
    """One number of one accelerator, or of one type."""
    return number_at(k, LANES + row * (k.num_lanes + k.num_types) + s)


@jitted
def own(k: Kernel, which: int) -> float:
    """One number of the policy."""
    return number_at(k, WEIGHTS + which).value  # type: ignore[no-any-return]
