"""Jobs in = jobs finished + jobs unfinished, under every policy of the catalogue."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.options import Failures, Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import ALLOCATORS, allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.contract.cluster import Cluster
from tests.cluster.small import job, table

WIDEST = {"allox": 1}  # refuses gangs, by name of the job


@st.composite
def workloads(draw: st.DrawFn, widest: int) -> ClusterProblem:
    """A few jobs of two tenants: elastic or rigid, some with a deadline that cannot be met."""
    jobs = []
    for n in range(draw(st.integers(1, 6))):
        scale = draw(st.sampled_from([s for s in (1, 1, 2, 4) if s <= widest]))
        at = draw(st.sampled_from([0.0, 10.0, 500.0, 5000.0]))
        jobs.append(
            job(
                str(n), draw(st.integers(1, 3000)), draw(st.sampled_from("ab")), scale, at,
                tenant=draw(st.sampled_from("xy")), deadline_s=draw(st.sampled_from([None, at + 1.0, at + 9e3])),
                max_scale=draw(st.sampled_from([None, widest])), app_id=draw(st.sampled_from([None, "search"])),
            )
        )  # fmt: skip
    counts = {"fast": 4, "slow": draw(st.sampled_from([1, 4]))}
    cluster = Cluster.of(counts, draw(st.sampled_from([2, 4])), {"fast": 3.6, "slow": 1.0})
    return build_problem(jobs, cluster, table())


@pytest.mark.parametrize("name", list(ALLOCATORS.names()))
@given(data=st.data(), horizon_s=st.sampled_from([None, None, 300.0, 4000.0]), failing=st.booleans())
@settings(max_examples=5, deadline=None)
def test_no_job_is_lost(name: str, data: st.DataObject, horizon_s: float | None, failing: bool) -> None:
    """Each job ends once, or is reported unfinished with work left; without a horizon all end."""
    p = data.draw(workloads(WIDEST.get(name, 4)))
    options = SimulationOptions(
        restart=Restart(5.0, 6.0, 7.0, 50.0), failures=Failures(2.0, 0.2, 1.0) if failing else Failures(),
        horizon_s=horizon_s,
    )  # fmt: skip
    ledger = simulate_cluster(p, allocator(name), options).ledger
    ended = ~np.isnan(ledger.finish_s)
    assert ended.sum() + len(ledger.unfinished) == len(p) and not ledger.dropped.any()
    assert (ledger.steps_left[ended] == 0.0).all() and (ledger.steps_left[~ended] > 0.0).all()
    assert (ledger.finish_s[ended] > p.arrival_s[ended]).all()
    if horizon_s is None:
        assert ended.all()
    else:
        assert (ledger.finish_s[ended] <= horizon_s).all()
