"""Rules of formulas decide alike compiled, stepped, in the reference engine and in plain Python."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunomia.contract.constants import give_constants
from eunomia.contract.view import SYSTEM, Assign, View
from eunomia.core.errors import ConfigError
from eunomia.inference import reference
from eunomia.inference.policies.sharing import WAY_OF, WAYS
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.distill.file import load_rules, save_rules
from eunomia.learning.distill.plain import decide
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.text import from_text
from eunomia.learning.evolve.rule import read_rule, write_rule
from eunomia.learning.policy.bases import ORDERS, base_weights
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.study.inference.policy import resolve_policy
from tests.inference.agreement import compare_decisions, compare_outcomes, compare_subjobs
from tests.inference.strategies import Case, cases
from tests.learning.deployment import OPTIONS, episode
from tests.learning.evolve.random_rules import random_formulas

SEEDS, PLACES = st.integers(0, 10_000), st.sampled_from(["eft", "any_idle", "eft_ca"])
SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(cases(periodic=False), SEEDS, PLACES)
def test_compiled_and_stepped_decide_alike(case: Case, seed: int, place: str) -> None:
    policy = RulePolicy(random_formulas(seed, place))
    compiled = simulate_problem(case.problem(), policy, case.options)
    stepped = simulate_problem(case.problem(), policy, case.options, stepped=True)
    for column in ("request", "layer", "accelerator", "start_s"):
        assert np.array_equal(compiled.subjobs[column], stepped.subjobs[column])


@SLOW
@given(cases(periodic=False, alike=False), SEEDS, PLACES)  # learned estimates tie but for rounding
def test_the_reference_engine_gives_the_same_run(case: Case, seed: int, place: str) -> None:
    policy = RulePolicy(random_formulas(seed, place))
    policy.share(case.problem().contention)
    memory = np.zeros(SYSTEM["memory"].shape)  # the kernel keeps it for the run, the reference does not

    def asked(view: View) -> list[Assign]:
        give_constants(policy, view.system)
        view.system["memory"] = memory
        answer = policy(view)
        memory[:] = view.system["memory"]
        return answer

    plain = reference.simulate(case.problem(), asked, case.options)
    kernel = simulate_problem(case.problem(), policy, case.options)
    compare_decisions(plain, kernel, keys=False)
    compare_subjobs(plain, kernel, keys=False)
    compare_outcomes(plain, kernel)


@pytest.mark.parametrize(("seed", "place"), [(0, "eft"), (1, "any_idle"), (2, "eft_ca"), (5, "eft")])
def test_the_plain_form_starts_the_same(seed: int, place: str) -> None:
    rules, e, asked = random_formulas(seed, place), episode(seed, requests=60), []
    policy, way = RulePolicy(rules), WAYS.index(WAY_OF.get(e.problem.contention, WAYS[0]))
    policy.share(e.problem.contention)

    def both(view):  # type: ignore[no-untyped-def]
        give_constants(policy, view.system)
        ours, plain = policy(view), decide(view, rules, way=way)
        asked.append(len(ours))
        assert ours == plain or not ours  # asked again at one instant, the compiled form answers once
        return plain if ours else []

    simulate_problem(e.problem, both, e.options)
    assert sum(asked) > 100


@pytest.mark.parametrize("order", ["edf", "sjf", "llf", "edf_bytes"])
@pytest.mark.parametrize("suffix", ["eft+g0.9", "eft_ca+g0.75", "g1"])
def test_a_known_rule_written_as_a_formula_decides_as_it_does(order: str, suffix: str) -> None:
    place, _, gate = suffix.rpartition("+g") if "+" in suffix else ("any_idle", "", "1")
    terms = " + ".join(f"{weight:g} * {name}" for name, weight in ORDERS[order].items())
    rules = read_rule(f"order = {terms}\nplacement = {place}\ngate = {gate}")
    e = episode(3)
    ours = simulate_problem(e.problem, RulePolicy(rules), e.options).results["finish_s"]
    base = LearnedPolicy(base_weights(f"{order}+f+{place}+g{gate}"))
    theirs = simulate_problem(e.problem, base, e.options).results["finish_s"]
    assert np.array_equal(ours, theirs, equal_nan=True)


def test_a_file_holds_formulas_and_runs(tmp_path: Path) -> None:
    rules, e = random_formulas(11), episode(5)
    path = save_rules(rules, tmp_path / "found.toml")
    read = load_rules(path)
    assert write_rule(read) == write_rule(rules) and read.stamp == rules.stamp
    policies = (RulePolicy(rules), resolve_policy(str(path)), pickle.loads(pickle.dumps(RulePolicy(read))))
    first, *others = (simulate_problem(e.problem, p, e.options).results["finish_s"] for p in policies)
    for other in others:
        assert np.array_equal(first, other, equal_nan=True)


def test_a_part_may_be_a_tree_and_another_a_formula() -> None:
    rules, e = random_formulas(2), episode(1)
    tree = from_text("if others_loss <= 0.3: 0.2\nelse: -0.1", "start")
    mixed = replace(rules, terms={"laxity": -1.0}, trees={**rules.trees, "start": tree})
    results = simulate_problem(e.problem, RulePolicy(mixed), e.options).results
    assert len(results) == len(e.problem.jobs.pair)
    with pytest.raises(ConfigError, match="follows a formula"):
        from_text("work + 1\nage", "order")


def test_a_run_explains_itself_by_the_linear_terms() -> None:
    rules, e = read_rule("-time_left - 3 * bytes + where(started > 0, 1, 0)"), episode(3, requests=40)
    outcome = simulate_problem(e.problem, RulePolicy(rules), replace(OPTIONS, record="all"))
    assert outcome.reasons is not None
    rows = outcome.reasons.rows
    whole = rows["base"] + rows["network"]
    assert rows["score"] == pytest.approx(whole, rel=1e-9, abs=1e-9)
    assert set(np.unique(rows["network"].round(6))) <= {0.0, 1.0}
    assert {-1.0, -3.0} & set(np.unique(rows["weight"]))
