"""Rehearsal for a server: the best policy for the first half of its recorded traffic; the second half judges it.

A server draws no traffic from a scenario, so that `eunomia` cannot rehearse there by itself. Its recording can be
drawn from anew (``redrawn``): gaps of each pair with replacement. Without a wish it is for SLO attainment where
something is promised, for hits where nothing is. Lookahead takes no part: no engine stands behind a server's View.

Does badly where both halves of the recording are the same kind of hour, and the next hour is another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eunomia.inference.policies.settings import call_name
from eunomia.inference.problem import build_problem
from eunomia.inference.rehearsal import Rehearsed, Rehearsing
from eunomia.study.inference.policy import PolicyLike, resolve_policy
from eunomia.study.serving.promotion import LEAST, NotPassed
from eunomia.study.serving.twin import Twin
from eunomia.study.serving.twin_part import part
from eunomia.study.serving.twin_training import redrawn
from eunomia.workload.requests import RequestTable

FOR_PROMISES = "eunomia(promise=attainment)"


@dataclass(frozen=True, eq=False)
class Redrawn:
    """Traffic like recorded requests, about ``count`` of them in a trace."""

    requests: RequestTable
    count: int

    def draw(self, number: int) -> RequestTable:
        """Another trace of the same traffic."""
        return redrawn(self.requests, self.count, np.random.default_rng([number, 0x5E4]))

    def first(self, most: int) -> Redrawn:
        """The same traffic in shorter traces."""
        return replace(self, count=min(self.count, most))


def rehearses(policy: PolicyLike) -> bool:
    """Whether a policy, as asked for, is to be rehearsed before it serves."""
    found: object = resolve_policy(policy)
    return isinstance(found, Rehearsing) and found.budget > 0


def halves(twin: Twin) -> tuple[Twin, Twin]:
    """What comes first, and the rest. Raises NotPassed where a half is too short to judge by."""
    count = len(twin.requests)
    if count // 2 < LEAST:
        raise NotPassed(
            f"the recording holds {count} requests; {2 * LEAST} are needed to rehearse on a half and judge by the other"
        )
    return part(twin, 0, count // 2), part(twin, count // 2, count)


def rehearse_on(twin: Twin, policy: str) -> tuple[str, Rehearsed]:
    """The name of the policy that is best for such traffic, and how the choice was made.

    ``policy``: one that rehearses; plain ``eunomia`` is for promises where there are some.
    """
    promised = any(agreement.slo is not None for agreement in twin.requests.agreements)
    found: object = resolve_policy(FOR_PROMISES if promised and policy == "eunomia" else policy)
    assert isinstance(found, Rehearsing), "asked before"
    found.aim = replace(found.aim, ahead=False)
    like = replace(twin.requests, stated=Redrawn(twin.requests, len(twin.requests)))
    found.choose(build_problem(like, twin.table, twin.platform, twin.options), twin.options)
    made = found.rehearsed
    assert made is not None, "it had a budget"
    return (call_name(made.name, {"rehearse": 0.0}) if made.name == found.name else made.name), made
