"""Rehearsal: what is tried, on which traffic, and which policy runs then."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.inference import rehearsal
from eunomia.inference.candidates import ALONE, PUBLISHED, PUBLISHED_GATES, STARTS, Rule, ahead
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.blend import blend
from eunomia.inference.problem import Problem, build_problem, rehearsed
from eunomia.inference.reference.rules import Rule as Plain
from eunomia.inference.reference.run import simulate as simulate_plainly
from eunomia.inference.rehearsal import Aim, Race, Rehearsed, hits, rehearse
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.load import eunomia
from eunomia.report.explain import explain
from eunomia.study.inference.run import run
from eunomia.workload.arrivals import Poisson, Replay
from eunomia.workload.deadlines import IsolatedFactor
from eunomia.workload.generate import generate
from eunomia.workload.model import DnnModel
from eunomia.workload.stream import Draw, Stream
from eunomia.workload.tenant import Agreement
from tests.inference.strategies import ToyPlatform, layers, toy_table

OPTIONS = EngineOptions(late="drop", record="requests")
NET = DnnModel("net", layers(3), ((0, 1), (1, 2)))
RATE = 0.25  # of requests of 3 s


def problem(seed: int = 0, count: int = 60, lanes: int = 3, options: EngineOptions = OPTIONS) -> Problem:
    """Layers that each fill the memory: side by side all of them are late, one after another most are in time."""
    stream = Stream((Draw(Agreement("u", "net"), deadline=IsolatedFactor(1.4)),), Poisson(RATE))
    requests = generate([stream], count / RATE, seed, iso_best_s={"net": 3.0})
    table = toy_table([NET], ("a",), np.ones((3, 1)), np.full((3, 1), 2.0))
    return build_problem(
        requests, table, ToyPlatform(("a",), np.zeros(lanes, np.int64), 2.0, "proportional"), options
    )


def choice(made: Problem, options: EngineOptions = OPTIONS) -> Rehearsed:
    return rehearse(made, options, {"fcfs": load_policy("fcfs")})


def test_where_layers_only_slow_each_other_the_choice_is_a_gate() -> None:
    made = problem()
    found = choice(made)
    assert load_policy(found.rule).gate <= 1.0  # type: ignore[attr-defined]
    share = {
        name: hits(made, simulate_problem(made, name, OPTIONS)) for name in (found.name, "edf+f", "fcfs")
    }
    assert share[found.name] > share["edf+f"] + 0.1 and share[found.name] > share["fcfs"] + 0.1


def test_the_choice_is_the_best_of_the_last_on_traces_that_chose_nobody() -> None:
    found = choice(problem())
    race = Race(problem(), OPTIONS, hits, {"fcfs": load_policy("fcfs")})
    first = rehearsal.SECOND
    fresh = [range(first, first + count) for count in (rehearsal.FINALS[-1][0], rehearsal.LAST)]
    assert found.scores in [{name: race.mean(name, traces) for name in found.scores} for traces in fresh]
    assert found.scores[found.name] == max(found.scores.values()) and found.rule in found.scores


def test_halves_keeps_the_best_and_one_of_those_that_are_alike() -> None:
    race = Race(problem(), OPTIONS, hits, {})
    names = ["edf+f", "fcfs", "edf+f+g1", "edf+f+eft+g1", "sjf+f+g1"]  # one type: eft is any_idle
    means = {name: race.mean(name, range(2)) for name in names}
    assert means["edf+f+eft+g1"] == means["edf+f+g1"] > means["edf+f"]
    kept = race.halves(names, ((1, 4), (2, 2)), range(2))
    assert len(kept) == 2 and "edf+f+eft+g1" not in kept
    assert means[kept[0]] == max(means.values()) and race.halves(names, (), range(2)) == names


@pytest.mark.parametrize(("period_s", "fine"), [(0.5, False), (0.0005, True)])
def test_many_ticks_spend_the_budget(period_s: float, fine: bool) -> None:
    """A run takes time at each tick, and not only at each event: with fine ticks fewer runs fit."""
    options = replace(OPTIONS, period_s=period_s, late="run")
    race = Race(problem(options=options), options, hits, {})
    race.mean("edf+f", range(2))
    outcomes = [outcome for outcome, _ in race.runs.values()]
    work = [max(one.events, rehearsal.TICK * one.rounds) for one in outcomes]
    assert race.events == 2 * rehearsal.SETUP + sum(work)
    assert all((one.rounds > 20 * one.events) == fine for one in outcomes)
    found = rehearse(race.problem, options, {"fcfs": load_policy("fcfs")}, budget=300_000)
    assert (not found.scores) == fine and (not fine or found.name == "fcfs")


def test_a_published_scheduler_may_be_good_with_a_gate_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a gate it may be the worst of them: that says nothing of it with one."""
    tried: set[str] = set()
    plain = Race.score

    def score(race: Race, name: str, number: int) -> float:
        tried.add(name)
        return plain(race, name, number)

    monkeypatch.setattr(Race, "score", score)
    monkeypatch.setattr(rehearsal, "_KEPT", {})  # choices of other tests
    rehearse(problem(), OPTIONS, {"fcfs": load_policy("fcfs")})
    assert {f"{name}+g{gate:g}" for name in PUBLISHED for gate in PUBLISHED_GATES} <= tried


def test_requests_come_faster_where_nothing_is_late() -> None:
    race, easy = Race(problem(), OPTIONS, hits, {}), Race(problem(), OPTIONS, lambda *_: 1.0, {})
    before = easy.trace(0).requests.arrival_s
    race.hasten(["edf+f"])
    easy.hasten(["edf+f"])
    assert race.pace == 1.0 and 0.8 * rehearsal.FASTEST < easy.pace <= rehearsal.FASTEST
    assert np.allclose(easy.trace(0).requests.arrival_s, before * easy.pace)


@pytest.mark.parametrize("late", ["drop", "last"])
def test_hopeless_requests_wait_in_lookahead_where_late_ones_stay(late: str) -> None:
    race = Race(problem(), replace(OPTIONS, late=late), hits, {})
    best = rehearsal._planned(race, ["edf+f+g1"], 10**9)
    tried = {name for name, _ in race.found}
    assert any("refuse=true" in name for name in tried) == (late == "last") and set(best) < tried
    means = sorted(race.mean(name, range(rehearsal.LOOKED)) for name in tried)
    assert [race.mean(name, range(rehearsal.LOOKED)) for name in best] == means[:-3:-1]


def test_neither_the_runs_own_requests_nor_its_seed_are_read() -> None:
    one = choice(problem(seed=1))
    rehearsal._KEPT.clear()
    assert choice(problem(seed=2), replace(OPTIONS, seed=99)) == one
    made, own = problem(seed=1), problem(seed=1).requests
    others = replace(own, arrival_s=own.arrival_s * 0.01)  # another trace altogether, of traffic stated alike
    rehearsal._KEPT.clear()
    assert choice(made._replace(requests=others)) == one


def test_errors_of_beliefs_are_drawn_anew() -> None:
    noisy = replace(OPTIONS, estimator=Estimator("lognormal"))
    made = problem(options=noisy)
    race = Race(made, noisy, hits, {})
    beliefs = [race.trace(n).costs.estimate_s for n in range(2)]
    assert not np.array_equal(*beliefs) and not np.array_equal(beliefs[0], made.costs.estimate_s)
    assert np.array_equal(race.trace(0).costs.latency_s, made.costs.latency_s)
    one = choice(made, noisy)
    assert choice(problem(options=replace(noisy, seed=5)), replace(noisy, seed=5)) is one


def test_no_rehearsed_trace_is_that_of_a_run() -> None:
    own, stated = problem(seed=0).requests, problem(seed=0).requests.stated
    assert stated is not None
    drawn = [stated.draw(n) for n in range(4)]
    assert not any(own.equals(one) for one in drawn) and not drawn[0].equals(drawn[1])
    assert drawn[2].equals(stated.draw(2)) and len(stated.first(5).draw(0)) == 5
    assert len(own.first(5)) == 5 and own.first(5).stated.draw(1).equals(drawn[1].first(5))  # type: ignore[union-attr]
    with pytest.raises(AssertionError, match="agreements"):
        rehearsed(problem(), replace(own, agreements=(Agreement("v", "net"),)), OPTIONS)


def test_of_a_recording_only_its_mean_rate_is_used() -> None:
    times = np.cumsum(np.full(80, 4.0))
    stream = Stream((Draw(Agreement("u", "net")),), Replay(times))
    stated = generate([stream], 320.0, 0).stated
    assert stated is not None
    drawn = stated.draw(0)
    assert not np.isin(drawn.arrival_s, times).any() and 50 < len(drawn) < 110


def test_arrivals_of_ones_own_are_rehearsed_as_poisson_arrivals() -> None:
    class Own:
        """Cannot be pickled."""

        mean_rate_per_s = RATE

        def times(self, rng: np.random.Generator, duration_s: float) -> np.ndarray:
            return np.arange(0.0, duration_s, 1.0 / RATE)

    made = problem(count=20)
    stated = replace(made.requests.stated, streams=(Stream((Draw(Agreement("u", "net")),), Own()),))  # type: ignore[type-var]
    own = made._replace(requests=replace(made.requests, stated=stated))
    assert rehearse(own, OPTIONS, {"fcfs": load_policy("fcfs")}, budget=200_000).scores
    none = made._replace(requests=replace(made.requests, stated=replace(stated, duration_s=1e-9)))  # type: ignore[type-var]
    assert rehearse(none, OPTIONS, {"fcfs": load_policy("fcfs")}, budget=200_000).name == "fcfs"


def test_nothing_is_rehearsed_without_stated_traffic_or_a_budget() -> None:
    made = problem()
    bare = made._replace(requests=replace(made.requests, stated=None))
    assert choice(bare) == Rehearsed("fcfs")
    assert rehearse(made, OPTIONS, {"fcfs": load_policy("fcfs")}, budget=0) == Rehearsed("fcfs")
    policy = eunomia()
    assert policy.choose(bare, OPTIONS) is policy


@pytest.mark.parametrize("budget", [-1, math.nan, math.inf])
def test_a_budget_that_is_none_is_refused(budget: float) -> None:
    with pytest.raises(
        ConfigError, match=rf"rehearse is {budget:g}; give simulated events such as 1e\+07, or 0 ="
    ):
        eunomia(rehearse=budget)
    with pytest.raises(ConfigError, match=f"rehearse is {budget:g}"):
        load_policy(f"eunomia(rehearse={budget:g})")


def test_a_small_budget_is_kept() -> None:
    own = {"fcfs": load_policy("fcfs")}
    small, large = (rehearse(problem(), OPTIONS, own, budget=budget) for budget in (100_000, 5_000_000))
    assert small.events < 0.6 * large.events and small.scores and large.scores
    none = rehearse(problem(), OPTIONS, own, budget=10_000)
    assert none.name == "fcfs" and not none.scores


def test_a_run_is_alike_stepped_pickled_and_asked_again() -> None:
    made, policy = problem(lanes=2), eunomia()
    first = simulate_problem(made, policy, OPTIONS)
    assert policy.rehearsed.scores and policy.chosen is not None
    again = simulate_problem(made, pickle.loads(pickle.dumps(policy)), OPTIONS)
    stepped = simulate_problem(made, eunomia(), OPTIONS, stepped=True)
    assert first.results.tobytes() == again.results.tobytes() == stepped.results.tobytes()


def test_scores_are_those_of_the_plain_engine() -> None:
    made = problem()
    race = Race(made, OPTIONS, hits, {})
    for name, rule in {
        "sjf+f+g0.9": Plain("sjf", feasible=True, gate=0.9),
        "edf_bytes+f+eft": Plain("edf_bytes", place="eft", feasible=True),
    }.items():
        plain = simulate_plainly(race.trace(3), rule, OPTIONS)
        share = np.mean([request.outcome == "hit" for request in plain.outcomes])
        assert race.score(name, 3) == pytest.approx(share)


@pytest.mark.parametrize("order", STARTS)
def test_blend_holds_the_rules_that_it_begins_with(order: str) -> None:
    made, weights = problem(), STARTS[order]
    blended = simulate_problem(made, blend(*weights, gate=0.9), OPTIONS).results
    assert blended.tobytes() == simulate_problem(made, f"{order}+f+g0.9", OPTIONS).results.tobytes()
    assert Rule(weights, 0.9, "eft").name == f"{order}+f+eft+g0.9"


def test_a_tuned_rule_can_be_asked_for_by_its_name() -> None:
    rule = Rule((0.0, 1.25, 0.0, -0.5, 0.0), 0.55, "eft_ca")
    loaded = load_policy(rule.name)
    assert loaded == blend(0.0, 1.25, path=-0.5, place="eft_ca", gate=0.55)
    assert rule.name == "blend(deadline=0,path=-0.5,place=eft_ca,work=1.25)+g0.55"
    moved = [rule.moved(np.random.default_rng(n), 1.0) for n in range(20)]
    assert len(set(moved)) == 20 and all(load_policy(one.name).gate > 0.0 for one in moved)  # type: ignore[attr-defined]


def test_what_was_chosen_is_recorded_printed_and_told() -> None:
    tenant = {
        "name": "u",
        "arrivals": {"process": "poisson", "rate_per_s": 400.0},
        "models": [{"model": "squeezenet", "deadline_factor": 3.0}],
    }
    platform = {"accelerators": [{"type": "simba", "count": 2}], "dram_bandwidth_gb_s": 8.0}
    done = run({"name": "small", "duration_s": 0.1, "platform": platform, "tenant": [tenant]}, "eunomia")
    facts = done.records.manifest["policy"]["rehearsed"]
    assert facts["scores"][facts["chosen"]] >= facts["scores"][facts["rule"]] and facts["events"] > 0
    assert ("ran as, after rehearsal", facts["chosen"]) in done.table().rows
    told = explain(done.records, 0).doubts
    assert any(f"chose {facts['chosen']}" in line for line in told)
    plain = run(
        {"name": "small", "duration_s": 0.1, "platform": platform, "tenant": [tenant]}, "eunomia(rehearse=0)"
    )
    assert "rehearsed" not in plain.records.manifest["policy"]
    assert not any("rehearsal" in line for line in explain(plain.records, 0).doubts)


def test_another_learned_policy_takes_part_and_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made, policy, tried = problem(), eunomia(), set[str]()
    (other,), score = policy.aim.beside, Race.score

    def noted(race: Race, name: str, number: int) -> float:
        tried.add(name)
        return score(race, name, number)

    with monkeypatch.context() as patch:
        patch.setattr(Race, "score", noted)
        rehearse(made, OPTIONS, {"fcfs": load_policy("fcfs")}, policy.aim)
    assert other in tried
    above = {name for name in tried if name.startswith("lookahead(base=eunomia")}
    assert {ahead(name, **ALONE) for name in policy.aim.over} <= above
    for chosen in (other, min(above)):
        monkeypatch.setattr(
            rehearsal, "rehearse", lambda *_, name=chosen: Rehearsed(name, {name: 1.0}, "edf", 1)
        )
        one, two = (simulate_problem(made, by, OPTIONS).results for by in (policy, load_policy(chosen)))
        assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("spent", [0.0, 0.6])
def test_lookahead_over_a_learned_policy_needs_half_the_budget(
    spent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tuned(race: Race, starts: list[Rule], *_: object) -> Rule:
        race.events = int(spent * 10**7)
        return starts[0]

    monkeypatch.setattr(rehearsal, "tuned_from", tuned)
    race = Race(problem(), OPTIONS, hits, {"mine": load_policy("fcfs")})
    race.aim = Aim(over=("eunomia",))
    rehearsal._raced(race, 10**7)
    tried = {name for name, _ in race.found}
    assert any(name.startswith("lookahead(") and "portfolio" not in name for name in tried)
    assert any("portfolio=none" in name for name in tried) == (spent < 0.5)


def test_a_choice_is_kept_for_a_policy_with_its_settings_not_for_its_name() -> None:
    raced = list[str]()

    def rounds(race: Race, budget: int) -> Rehearsed:
        raced.append("again")
        return Rehearsed(next(iter(race.own)))

    made, aim = problem(), Aim(rounds=rounds)
    for starve, races in ((math.inf, 1), (math.inf, 1), (3.0, 2), (math.inf, 2)):
        rehearse(made, OPTIONS, {"eunomia": eunomia(starve=starve, rehearse=0)}, aim, 1000)
        assert len(raced) == races


def test_at_ticks_a_policy_that_learned_is_tried_too() -> None:
    options = replace(OPTIONS, period_s=1.0)
    asked = Race(problem(options=options), options, hits, {"mine": load_policy("fcfs")})
    rehearsal._raced(asked, 10**6)
    assert any(name == "mine" for name, _ in asked.found)
