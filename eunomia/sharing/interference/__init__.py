"""How much slower a job runs beside others: one interface, several back ends.

A :class:`CoRun` is one observation: a target, its neighbours, the device kind, slowdown = time beside / time alone.
Predictors are fitted on such rows and asked for others; what they know of a job is a vector of features. Back ends
and whose idea they follow (written from descriptions, none of these systems publishes usable code):

* ``none``: slowdown 1; ``mean``: the average seen per device kind and number of neighbours.
* ``utilisation_sum``: max(1, a + b * sum of utilisations), Horus' proxy (TPDS 2022).
* ``linear``, ``forest``: of target's and neighbours' features; the forest is Co-scheML's learner (CLUSTER 2020).
* ``unified``: the forest with device kind and number of neighbours as columns, one model for all (Mendoza et al.,
  EuroMLSys 2021); ``boosting``: the same by gradient boosting. Trees are scikit-learn's (extra ``sharing``).
* ``factorised``: log slowdown = tolerated by the target + caused by each neighbour + kind. So a new job needs
  two probes only (Paragon, ASPLOS 2013, without its second classification).
* ``completed``: what ``factorised`` misses of a job, as a mixture of what it misses of others; takes in more co-runs.
* ``online``: any of them, corrected by each co-run that is observed.
"""

from eunomia.core.arrays import Floats
from eunomia.sharing.interference.averages import Mean, NoInterference, UtilisationSum
from eunomia.sharing.interference.co_run import CoRun, Features, Predictor
from eunomia.sharing.interference.completed import Completed
from eunomia.sharing.interference.factorised import Factorised
from eunomia.sharing.interference.linear import Linear
from eunomia.sharing.interference.online import Online
from eunomia.sharing.interference.predictors import BACK_ENDS, BY_TREES, predictor
from eunomia.sharing.interference.trees import Trees

__all__ = [
    "BACK_ENDS",
    "BY_TREES",
    "CoRun",
    "Completed",
    "Factorised",
    "Features",
    "Floats",
    "Linear",
    "Mean",
    "NoInterference",
    "Online",
    "Predictor",
    "Trees",
    "UtilisationSum",
    "predictor",
]
