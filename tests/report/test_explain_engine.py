"""Whatever the engine decides under a Greedy rule, the report decides the same from the records alone."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunomia.core.records import RunRecords
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.simulate import simulate
from eunomia.report.explain import explain
from eunomia.report.history import History
from eunomia.report.ranking import ORDERS, PLACES, Rule
from tests.inference.strategies import Case, cases

FIXED_ESTIMATES = cases(periodic=False).filter(lambda case: case.options.estimator.mode != "ewma")


def recorded(case: Case, policy: Greedy) -> RunRecords:
    """A run of the compiled engine, with the facts that an experiment writes into the manifest."""
    options = case.options
    result = simulate(case.requests, case.table, case.platform, policy, options)
    manifest = {
        "policy": {"name": policy.name, "order": policy.order, "place": policy.place, "feasible": policy.feasible},
        "engine": {"late": options.late, "period_s": None, "bandwidth_bytes_s": case.platform.dram_bytes_s,
                   "estimator": {"mode": options.estimator.mode}},
        "platform": {"types": list(case.platform.types)},
        "models": {m.name: {"edges": [list(edge) for edge in m.edges]} for m in case.table.models},
    }  # fmt: skip
    return RunRecords(dict(result.tables), manifest)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    FIXED_ESTIMATES,
    st.sampled_from(sorted(ORDERS)),
    st.sampled_from(PLACES),
    st.booleans(),
    st.sampled_from([float("inf"), float("inf"), 0.8]),
)
def test_every_decision_of_the_engine_is_recomputed(
    case: Case, order: str, place: str, feasible: bool, gate: float
) -> None:
    records = recorded(case, Greedy(order, place, feasible, gate))
    history = History(records)
    rule, reason = Rule.of(history)
    assert rule is not None, reason
    for number in range(len(history.decision)):
        seen = rule.at(number)
        row = int(seen.rows[seen.first])
        assert seen.first >= 0 and len(seen.rows) == history.num_waiting[number]
        chosen = (history.chosen_request[number], history.chosen_layer[number])
        assert (history.subjobs.request[row], history.subjobs.layer[row]) == chosen
        assert seen.wanted[seen.first] == history.chosen_accelerator[number]
        assert np.isclose(seen.key[seen.first], history.subjobs.key[row], rtol=1e-9, equal_nan=True)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(FIXED_ESTIMATES, st.sampled_from(["edf", "llf"]))
def test_every_request_of_the_engine_is_explained_without_a_doubt(case: Case, order: str) -> None:
    records = recorded(case, Greedy(order, "eft"))
    if records["decisions"].num_rows == 0:
        return
    for number in records["requests"]["request"].to_pylist():
        e = explain(records, number)
        assert e.agreed == e.checked and not e.doubts
        assert all(seconds >= 0.0 for _, seconds in e.parts)
        assert all(wait.held_s <= wait.wait_s + 1e-9 for wait in e.waits)
        assert e.text().startswith(f"req-{number} of ")
