"""Orders of the portfolio by number, so that one compiled rollout serves all of them."""

from __future__ import annotations

from eunomia.contract.rows import Ready, System
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies import ordering

ORDERS = (
    "edf",
    "llf",
    "sjf",
    "edf_bytes",
    "fcfs",
    "sjf_mean",
    "llf_mean",
    "heft",
    "priority",
    "laxity_ratio",
    "deficit_edf",
    "deficit_llf",
)
_FIRST_DYNAMIC = ORDERS.index("laxity_ratio")

_edf, _llf, _sjf = jitted(ordering.edf), jitted(ordering.llf), jitted(ordering.sjf)
_edf_bytes, _fcfs, _sjf_mean = jitted(ordering.edf_bytes), jitted(ordering.fcfs), jitted(ordering.sjf_mean)
_llf_mean, _heft, _priority = jitted(ordering.llf_mean), jitted(ordering.heft), jitted(ordering.priority)
_laxity_ratio = jitted(ordering.laxity_ratio)
_deficit_edf, _deficit_llf = jitted(ordering.deficit_edf), jitted(ordering.deficit_llf)


@jitted
def is_dynamic(order: int) -> bool:
    """Whether keys change while sub-jobs wait."""
    return order >= _FIRST_DYNAMIC


@jitted
def order_key(order: int, job: Ready, system: System) -> float:
    """The key of a sub-job under order number ``order`` of ORDERS; least first."""
    if order == 0:
        return _edf(job, system)
    if order == 1:
        return _llf(job, system)
    if order == 2:
        return _sjf(job, system)
    if order == 3:
        return _edf_bytes(job, system)
    if order == 4:
        return _fcfs(job, system)
    if order == 5:
        return _sjf_mean(job, system)
    if order == 6:
        return _llf_mean(job, system)
    if order == 7:
        return _heft(job, system)
    if order == 8:
        return _priority(job, system)
    if order == 9:
        return _laxity_ratio(job, system)
    if order == 10:
        return _deficit_edf(job, system)
    return _deficit_llf(job, system)
