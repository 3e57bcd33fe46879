"""Guards inside compiled code: is this a state like those of training?

The alarm judges what the policy decides on: sub-jobs that can still meet their deadline, and those of their features
that the policy reads (``Weights.judged``). A decision point is *strange* if more than SHARE of the judged features of
some such sub-job lie outside the training range: low..high of the checkpoint, widened (weights.py). The
share of strange points, averaged over about 1/RATE decisions, is compared with the alarm level. Above it the policy
answers with its heuristic, until the average has fallen to half the level.
"""

from __future__ import annotations

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.observation.table import HOPELESS, JOB
from eunomia.learning.policy import weights as at

SHARE, RATE = 0.15, 0.01
AVERAGE, ALARMED = 4, 5  # places in system.memory
N_JOB = len(JOB)


@jitted
def outside(jobs: Floats, block: Floats) -> int:
    """Most judged features of one sub-job that are outside the training range: independent of their order."""
    worst = 0
    for i in range(len(jobs)):
        if jobs[i, HOPELESS] != 0.0:
            continue
        count = 0
        for f in range(N_JOB):
            count += 1 if jobs[i, f] < block[at.LOW + f] or jobs[i, f] > block[at.HIGH + f] else 0
        worst = max(worst, count)
    return worst


@jitted
def is_strange(outside: int, block: Floats, system: Record) -> bool:
    """Whether the alarm is on, after this decision point has been taken into account. ``outside``: see there."""
    memory = system.memory
    if block[at.JUDGED] == 0.0:
        return False  # no range is known
    strange = 1.0 if outside / block[at.JUDGED] > SHARE else 0.0
    memory[AVERAGE] += RATE * (strange - memory[AVERAGE])
    if memory[ALARMED] == 0.0 and memory[AVERAGE] > block[at.ALARM]:
        memory[ALARMED] = 1.0
        block[at.COUNTERS + at.ALARMS] += 1.0
    elif memory[ALARMED] == 1.0 and memory[AVERAGE] < 0.5 * block[at.ALARM]:
        memory[ALARMED] = 0.0
    block[at.COUNTERS + at.STRANGE] += strange
    return memory[ALARMED] == 1.0  # type: ignore[no-any-return]


@jitted
def note_ranges(jobs: Floats, block: Floats) -> None:
    """Widen the ranges of features seen so far (while a policy's ranges are being recorded)."""
    for i in range(len(jobs)):
        if jobs[i, HOPELESS] != 0.0:
            continue
        for f in range(N_JOB):
            block[at.SEEN_LOW + f] = min(block[at.SEEN_LOW + f], jobs[i, f])
            block[at.SEEN_HIGH + f] = max(block[at.SEEN_HIGH + f], jobs[i, f])
