"""What every contention model of the table must hold, a newcomer too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import pages
from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.model import Demand
from eunomia.inference import reference
from eunomia.inference.kernel import modes, setup
from eunomia.inference.options import EngineOptions
from eunomia.inference.reference import Rule
from eunomia.inference.simulate import simulate_problem
from tests.inference.agreement import assert_agreement, compare_outcomes, compiled
from tests.inference.strategies import Case, cases, greedy_rules

SOME = settings(max_examples=40, derandomize=True, deadline=None)
demands = st.lists(
    st.builds(
        lambda b, w, c, part: Demand(b, w, c, part * c, b * c),
        st.just(0.0) | st.floats(0.01, 5.0),
        st.floats(0.25, 4.0),
        st.floats(0.1, 4.0),
        st.floats(0.1, 1.0),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("name", CONTENTION)
@SOME
@given(cases(periodic=False, exact=False), greedy_rules())
def test_the_compiled_form_is_the_plain_one(name: str, case: Case, rule: Rule) -> None:
    assert_agreement(replace(case, options=replace(case.options, contention=name)), rule)


@pytest.mark.parametrize("name", [name for name, model in CONTENTION.items() if model.alike])
@SOME
@given(cases(periodic=False, exact=False))
def test_so_is_the_short_way_of_models_with_one_rate(name: str, case: Case) -> None:
    options = EngineOptions(contention=name, late="run", record="requests")
    case, rule = replace(case, options=options), Rule(order="edf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "WORTH_A_SPRINT", 0)
        assert modes.kind_of(case.problem(), compiled(rule).rules, options) == modes.SPRINT
        found = simulate_problem(case.problem(), compiled(rule), options)
    compare_outcomes(reference.simulate(case.problem(), rule, options), found)


@pytest.mark.parametrize("name", CONTENTION)
@SOME
@given(demands, st.floats(0.1, 10.0))
def test_rates_and_facts_fit(name: str, running: list[Demand], bandwidth: float) -> None:
    model, lanes = CONTENTION[name], len(running) + 2
    rates = model.plain(running, bandwidth, lanes)
    assert all(0.0 < rate <= 1.0 for rate in rates)
    if sum(layer.bytes_s for layer in running) <= bandwidth and model.free_below:
        assert rates == pytest.approx([1.0] * len(running))
    used = sum(layer.bytes_s * rate for layer, rate in zip(running, rates, strict=True))
    assert model.exceeds or used <= bandwidth * (1.0 + 1e-9)
    urgent = [layer._replace(weight=1.0 + position) for position, layer in enumerate(running)]
    assert model.weighs or model.plain(urgent, bandwidth, lanes) == rates
    if model.alike:
        rate, inverse = model.alike(sum(layer.bytes_s for layer in running), bandwidth)
        assert rates == pytest.approx([rate] * len(rates)) and rate * inverse == pytest.approx(1.0)


def test_the_page_gives_every_formula() -> None:
    page = (pages.ROOT / "docs" / "engine.md").read_text()
    assert all(f"* `{name}`: " in pages.generated(page) for name in CONTENTION)
