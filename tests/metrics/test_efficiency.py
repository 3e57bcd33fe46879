from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError
from eunomia.metrics import efficiency
from eunomia.metrics.columns import Costs, Requests, Subjobs
from tests.metrics.toy import costs_table, four, many, request, requests


def layers(*rows: tuple[float, float, float]) -> Subjobs:
    """Rows of (start, end, isolated work)."""
    table = np.array(rows, np.float64).reshape(-1, 3)
    return Subjobs(table[:, 0], table[:, 1], table[:, 2], np.zeros(len(table)))


COSTS = Costs.read(
    costs_table(
        ("m", 0, "x", 1.0, 0.0, 4.0), ("m", 0, "y", 1.0, 0.0, 2.0), ("m", 1, "x", math.inf, 0.0, 99.0),
        ("m", 1, "y", 1.0, 0.0, 4.0), ("n", 0, "x", 1.0, 0.0, 4.0),
    )
)  # fmt: skip


def test_turnaround_and_throughput_by_hand() -> None:
    r = requests(*four())  # slowdown 2, 2, 6; iso 1, 2, 1
    assert efficiency.antt(r) == pytest.approx(10 / 3)
    assert efficiency.stp_sum(r) == pytest.approx(1 / 2 + 1 / 2 + 1 / 6)
    assert efficiency.stp(r.where(r.finished), 8.0) == 0.5
    assert math.isnan(efficiency.stp(r, 0.0))


def test_throughput_over_less_than_a_second() -> None:
    r = requests(*four())
    assert efficiency.stp(r.where(r.finished), 0.5) == 8.0


def test_overheads_of_less_than_a_joule() -> None:
    rows = [
        request("a", "m", 0.0, 9.0, 1.0, "hit", energy_j=0.25),
        request("a", "m", 0.0, 9.0, 1.0, "hit", energy_j=0.25),
    ]
    r = requests(*rows)
    assert efficiency.scheduler_energy_overhead(r, 0.1) == pytest.approx(0.2)
    assert efficiency.rival_energy_overhead(r, r) == 0.0
    nothing = requests(request("a", "m", 0.0, 9.0, 1.0, "hit", energy_j=0.0))
    assert math.isnan(efficiency.scheduler_energy_overhead(nothing, 0.1))
    assert math.isnan(efficiency.rival_energy_overhead(nothing, nothing))


@given(st.integers(0, 500))
def test_stp_is_the_time_average_of_progress_in_the_system(seed: int) -> None:
    r = Requests.read(many(seed, 30))
    r = r.where(r.finished)
    edges = np.unique(np.concatenate([r.arrival_s, r.finish_s]))
    rate = r.isolated_s / r.response_s
    area = sum(
        (b - a) * rate[(r.arrival_s <= a) & (r.finish_s >= b)].sum()
        for a, b in zip(edges, edges[1:], strict=False)
    )
    assert efficiency.stp(r, float(edges[-1])) == pytest.approx(area / edges[-1], rel=1e-9)


def test_utilisation_by_hand() -> None:
    # two accelerators, 2..10: 2 s of the first layer, 3 of the second, 1 of the one still running
    jobs = layers((0.0, 4.0, 2.0), (5.0, 8.0, 3.0), (9.0, math.inf, 0.5))
    assert efficiency.utilisation(jobs, 2, 2.0, 10.0) == 6 / 16
    assert efficiency.effective_utilisation(jobs, 2, 2.0, 10.0) == (1.0 + 3.0 + 0.5) / 16
    assert math.isnan(efficiency.utilisation(jobs, 2, 2.0, 2.0))
    assert efficiency.utilisation_of_run(np.array([4.0, 2.0]), 8.0) == 6 / 16


def test_energy_by_hand() -> None:
    r = requests(*four())
    assert efficiency.energy_per_request_j(r) == 2.5 and efficiency.energy_per_hit_j(r) == 5.0
    assert efficiency.scheduler_energy_overhead(r, 0.1) == pytest.approx(0.01)
    assert math.isnan(efficiency.energy_per_hit_j(r.where(~r.hit)))


def test_overhead_against_a_rival_compares_what_both_finished() -> None:
    ours, rival = requests(*four()), requests(*four()[:2], request("b", "m", 2.0, 7.0, 9.0, "dropped"))
    assert efficiency.rival_energy_overhead(ours, rival) == 0.0
    dearer = requests(*({**row, "energy_j": row["energy_j"] * 1.5} for row in four()))
    assert efficiency.rival_energy_overhead(dearer, ours) == pytest.approx(0.5)
    assert math.isnan(efficiency.rival_energy_overhead(ours, rival.where(~rival.finished)))


def test_ux_cost_by_hand() -> None:
    r = requests(*four())
    # m: two misses of three, finished ones took (1 + 3) / 2 of at most 4 + 4 (y alone runs layer 1); n: 2 of 4
    assert efficiency.normalised_energy(r, COSTS) == {"m": 0.25, "n": 0.5}
    assert efficiency.ux_cost(r, COSTS) == pytest.approx((2 / 3 + 0) * (0.25 + 0.5))
    assert efficiency.ux_cost(r.where(r.hit), COSTS) == 0.0
    assert math.isnan(efficiency.ux_cost(r.where(~r.finished), COSTS))


def test_decisions_and_periods_by_hand() -> None:
    assert efficiency.decisions_per_request(np.array([0.0, 1.0, 2.0, 3.0, 9.0]), 2, 1.0, 3.0) == 1.5
    assert math.isnan(efficiency.decisions_per_request(np.empty(0), 0, 0.0, 1.0))
    assert efficiency.period_in_layers(1.0, layers((0.0, 9.0, 2.0), (0.0, 9.0, 6.0))) == 0.25
    assert math.isnan(efficiency.period_in_layers(1.0, layers()))
    with pytest.raises(ConfigError, match="period is 0.0 s"):
        efficiency.period_in_layers(0.0, layers())


def test_no_costs_at_all_give_no_normalised_energy() -> None:
    r = requests(request("a", "m", 0.0, 9.0, 2.0, "hit", energy_j=1.0))
    found = efficiency.normalised_energy(r, Costs.read(costs_table()))
    assert list(found) == ["m"] and math.isnan(found["m"])
