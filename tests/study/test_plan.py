"""Plans: what is refuted fails, what is found is what trying everything finds, and a stopped plan goes on."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.config import load_scenario
from eunomia.core.errors import ConfigError
from eunomia.engines.processes import Interrupted
from eunomia.hardware.facts import presets
from eunomia.study.plan import PlanResult, load_plan, plan, plan_from
from eunomia.study.plan.catalogue import catalogue
from eunomia.study.plan.crew import Trials
from eunomia.study.plan.ground import ground
from eunomia.study.plan.rivals import greedy
from eunomia.study.plan.search import Search
from eunomia.study.plan.trial import run_order, tally
from eunomia.study.serving.twin import twin_of
from eunomia.study.serving.twin_scenario import write_scenario
from tests.serving.test_twin import recording
from tests.shared_data import shared

EXAMPLES = Path(__file__).parents[2] / "examples"


def question(**changes: Any) -> dict[str, Any]:
    """Three types of unlike speed and price, two tenants, networks of a few layers."""
    conv = {"kind": "conv", "in_channels": 64, "out_channels": 64, "in_h": 28, "in_w": 28, "out_h": 28, "out_w": 28,
            "kernel_h": 3, "kernel_w": 3}  # fmt: skip
    layers = [{"name": f"c{n}", **conv} for n in range(4)]
    return {
        "name": "small",
        "duration_s": 0.1,
        "network": [{"name": "four", "layers": layers}, {"name": "two", "layers": layers[:2]}],
        "device": [
            {"type": "simba", "most": 3, "price": 9.0, "power_w": 2.0},
            {"type": "systolic", "most": 3, "price": 7.0, "power_w": 1.5},
            {"type": "eyeriss-chip", "most": 3, "price": 1.0, "power_w": 0.3},
        ],
        "memory": [{"gb_s": 4.0, "price": 1.0}, {"gb_s": 16.0, "price": 4.0}],
        "tenant": [
            {"name": "a", "models": [{"model": "four", "deadline_factor": 6.0, "slo": {"hit_rate": 0.9}}],
             "arrivals": {"process": "poisson", "rate_per_s": 9000.0}},
            {"name": "b", "models": [{"model": "two", "deadline_factor": 8.0, "slo": {"hit_rate": 0.8}}],
             "arrivals": {"process": "poisson", "rate_per_s": 6000.0}},
        ],
        "search": {"seeds": 2, "fresh": 3, "cost_error": 0.1, "policies": ["edf+f+eft", "sjf+f"], "front": [1.5]},
        **changes,
    }  # fmt: skip


@pytest.fixture(scope="module")
def answered() -> PlanResult:
    return plan(question())


def test_it_finds_what_trying_everything_finds(answered: PlanResult) -> None:
    config = plan_from(question())
    on = ground(config)
    platforms = catalogue(config, on.names)
    with Trials(1, None) as trials:
        search = Search(on, platforms, trials)
        search.screen.refuted = lambda row: None  # type: ignore[method-assign]  # everything is tried
        row, proof = search.least(platforms.cost, "all")
    assert proof is not None and proof.holds
    assert answered.row == row
    assert answered.answer.work["refuted"] > 0, "else the test says nothing about screening"


def test_what_is_refuted_fails_under_every_policy(answered: PlanResult) -> None:
    search, rng = answered.answer.search, np.random.default_rng(0)
    refuted = np.flatnonzero(search.screen.by >= 0)
    for row in rng.choice(refuted, 12, replace=False).tolist():
        for policy in ("edf+f+eft", "sjf+f", "llf+f+eft", "edf+f+eft+g0.8"):
            assert not run_order(replace(search.order(row), policies=(policy,)))["kept"], (row, policy)


def test_a_refuted_platform_refutes_all_that_have_no_more(answered: PlanResult) -> None:
    screen, platforms = answered.answer.search.screen, answered.answer.platforms
    for row in np.flatnonzero(screen.by >= 0)[-20:].tolist():
        smaller = platforms.inside(row)
        assert all(screen.refuted(other) for other in np.flatnonzero(smaller).tolist())


def test_the_cut_is_a_bound_on_what_any_run_does(answered: PlanResult) -> None:
    """No run serves more of the promised work than the program says for its platform."""
    search = answered.answer.search
    work, needs = search.screen._work, search.screen.needs
    for row, found in itertools.islice(search.found.tallies.items(), 20):
        if len(found.hits) < len(search._seeds):
            continue
        served = float(np.minimum(found.hits.sum(axis=0) / np.maximum(needs, 1), 1.0)[needs > 0].sum())
        cut = work.cut(row)
        if cut is not None:
            bound = cut.bound(search.platforms.counts[[row]], search.screen.gb_s[[row]])[0]
            assert served <= bound + 1e-6


def test_a_race_keeps_whom_a_full_run_keeps(answered: PlanResult) -> None:
    search = answered.answer.search
    for row in list(search.found.tallies)[:10]:
        order = search.order(row)
        full = [tally(run_order(replace(order, policies=(p,), race=False))) for p in order.policies]
        assert run_order(order)["kept"] == any(one.kept(search.targets) for one in full)


@pytest.mark.parametrize(("hits", "asked", "said"), [(10, 10, True), (9, 10, False), (40, 40, False)])
def test_few_requests_that_all_hit_are_said_to_prove_little(
    answered: PlanResult, hits: int, asked: int, said: bool
) -> None:
    """0.9 ** 10 = 0.35 and 0.8 ** 10 = 0.11 are likely, 0.9 ** 40 = 0.015 is not."""
    fresh = answered.answer.proof.fresh
    counted = replace(fresh, hits=np.full((1, 2), hits), asked=np.full((1, 2), asked))
    proof = replace(answered.answer.proof, fresh=counted, wrong=None, distinct=np.full(2, asked))
    told = " ".join(replace(answered, answer=replace(answered.answer, proof=proof)).sentences())
    assert (f"kept it on all {asked} requests" in told) == ("raise duration_s or fresh" in told) == said


def test_rivals_are_never_cheaper(answered: PlanResult) -> None:
    answer = answered.answer
    assert answer.row is not None
    for rival in answer.rivals:
        if rival.row is not None:
            assert rival.proof is not None and rival.proof.holds
            assert answer.platforms.cost[rival.row] >= answer.platforms.cost[answer.row]


def test_every_platform_has_a_verdict_and_only_one_is_the_answer(
    answered: PlanResult, tmp_path: Path
) -> None:
    rows = answered.rows()
    assert len(rows) == answered.answer.work["platforms"]
    verdicts = [row["verdict"] for row in rows]
    assert verdicts.count("answer") == 1
    assert all(row["why"] for row in rows if row["verdict"] != "answer")
    cheaper = verdicts[: verdicts.index("answer")]
    assert "behind" not in cheaper, "what costs less is refuted, beaten or failed"


def test_a_stopped_plan_goes_on_and_says_the_same(answered: PlanResult, tmp_path: Path) -> None:
    folder = tmp_path / "plan"

    def stop(done: int, stage: str) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(
        Interrupted, match="stopped after 5 trials; they are kept in .*run the same command again"
    ):
        plan(question(), directory=folder, on_done=stop)
    result = plan(question(), directory=folder)
    assert result.answer.work["reused"] == 5
    assert result.sentences() == answered.sentences()
    again = plan(question(), directory=folder)
    assert again.answer.work["trials"] == 0
    assert json.loads((folder / "plan.json").read_text())["platform"]["label"] in result.title
    with (folder / "plan.csv").open() as file:
        assert len(list(csv.DictReader(file))) == result.answer.work["platforms"]
    assert "Pareto front" in (folder / "report.html").read_text()


def test_another_price_tries_nothing_anew(tmp_path: Path) -> None:
    first = plan(question(), directory=tmp_path / "p", rivals=False)
    dearer = question()
    dearer["device"][0]["price"] = 9.5
    second = plan(dearer, directory=tmp_path / "p", rivals=False)
    assert second.answer.work["trials"] < first.answer.work["trials"] / 2


def test_the_answer_does_not_depend_on_the_number_of_processes(answered: PlanResult) -> None:
    assert plan(question(), workers=2).sentences() == answered.sentences()


def test_power_and_energy_are_targets_too() -> None:
    for target in ("power", "energy"):
        result = plan(question(target=target), rivals=False)
        assert result.row is not None
        answer = result.answer
        best = answer.platforms.power_w[result.row] if target == "power" else answer.energy_j(result.row)
        for row in answer.found.kept - set(answer.found.failed):
            other = answer.platforms.power_w[row] if target == "power" else answer.energy_j(row)
            assert other >= best - 1e-12


def test_nobody_can_serve_faster_than_the_fastest_type() -> None:
    hurried = question()
    hurried["tenant"][0]["models"][0] = {"model": "four", "deadline_ms": 1e-3, "slo": {"hit_rate": 0.9}}
    result = plan(hurried)
    assert result.row is None
    assert (
        "a/four takes" in result.sentences()[0] and "longer than its deadlines allow" in result.sentences()[0]
    )
    assert result.answer.work["runs"] == 0


def _without(key: str) -> dict[str, Any]:
    return {name: value for name, value in question().items() if name != key}


def _promise(**model: Any) -> dict[str, Any]:
    tenant = {**question()["tenant"][0], "models": [{"model": "four", **model}]}
    return question(tenant=[tenant])


WRONG = [
    (_without("tenant"), "tenant is missing"),
    (_without("device"), "lacks the key 'device'"),
    (question(targets="cost"), "did you mean 'target'"),
    (question(target="prise"), "choose one of: cost"),
    (question(target="head-room"), "choose one of: cost"),
    (question(device=[{"type": "simbaa"}]), "did you mean.*simba"),
    (question(device=[{"type": "simba", "least": 5, "most": 2}]), "least is 5 and most is 2"),
    (question(device=[{"type": "simba"}, {"type": "simba"}]), "two entries of .* one type"),
    (question(bounds={"power_w": 0.1}), "bounds.power_w is 0.1, but the least of the platforms takes 0.3"),
    (question(device=[{"type": "simba", "most": 4000}, {"type": "systolic", "most": 4000}]), "lower most"),
    (_promise(deadline_factor=4.0), "no tenant promises anything"),
    (_promise(slo={"hit_rate": 0.9}), "without a deadline; give deadline_ms"),
    (_promise(deadline_ms=5.0, slo={"latency_p99_ms": 3.0}), "a plan judges hit rates"),
    (question(search={"policies": ["edff"]}), "unknown policy"),
    ({**_without("memory"), "contention": "max_min"}, r"no \[\[memory\]\] to share"),
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[said[:30] for _, said in WRONG])
def test_a_wrong_plan_is_refused_in_a_sentence(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan(given)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "x"\n[[device]]\ntype = "simba"\nmost = 0\n')
    with pytest.raises(ConfigError, match=r"mine\.toml: device\.0\.most is 0; it must be at least 1"):
        load_plan(file)


def test_somebody_elses_traffic_on_gpus(tmp_path: Path) -> None:
    """Azure's conversations, shortened, under the defaults."""
    trace = shared("traces/azure_llm_2023_conv.csv")
    changes = [
        "duration_s=0.3",
        "tenant.chat.arrivals.speedup=50.0",
        "tenant.photos.arrivals.rate_per_s=100.0",
        "warmup_s=0.0",
        "search.seeds=2",
        "search.fresh=3",
        f"tenant.chat.arrivals.path={trace}",
    ]
    result = plan(EXAMPLES / "plan_azure.toml", changes, rivals=False)
    assert result.row is not None
    assert all(promise["at_least"] >= promise["promised"] for promise in result.data()["promises"])


def test_a_recording_of_a_server_is_planned_for(tmp_path: Path) -> None:
    """Block times as measured, traffic as it came: how many devices of which kind?"""
    content = recording(3, "edf+f")
    rows = [
        row for copy in range(8) for row in ([row[0] + 20.0 * copy, *row[1:]] for row in content["requests"])
    ]  # type: ignore[attr-defined]
    twin = twin_of({**content, "requests": rows})
    paths = write_scenario(twin, tmp_path)
    assert load_scenario(paths["scenario"]).network is not None
    devices = [{"type": "a", "most": 2, "rent_per_h": 1.0}, {"type": "b", "most": 2, "rent_per_h": 1.5}]
    search = {"seeds": 2, "fresh": 2, "cost_error": 0.0, "front": []}
    asked = {"name": "served", "scenario": paths["scenario"], "device": devices, "search": search}
    result = plan(asked)
    assert result.answer.work["platforms"] == 8
    assert result.row is None or result.answer.proof is not None


def test_a_platform_is_proven_on_the_same_seeds_for_everybody(answered: PlanResult) -> None:
    """Else a rival could pass, on seeds of its own, with a platform that failed for the answer."""
    search = answered.answer.search
    assert answered.row is not None
    proofs = [rival.proof for rival in answered.answer.rivals if rival.row == answered.row]
    assert all(proof is answered.answer.proof for proof in proofs)
    assert search.prove(answered.row) is answered.answer.proof
    for row in search.found.failed:
        assert all(rival.row != row for rival in answered.answer.rivals)


def test_a_platform_that_fails_with_costs_in_error_is_not_proven(
    answered: PlanResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once passed by its figures as costed, which look better."""
    search = answered.answer.search
    assert answered.row is not None
    again = Search(search.on, search.platforms, search.trials)
    again.found.tallies = search.found.tallies
    told = search.trials.run([search.order(answered.row)], "known")[0]

    def run(orders: list[Any], stage: str) -> list[dict[str, Any]]:
        asked = [[10, 10]] * len(orders[0].seeds)
        hits = [asked if order.error == 0.0 else [[1, 1]] * len(asked) for order in orders]
        return [
            {**told, "policy": o.policies[0], "hits": h, "asked": asked}
            for o, h in zip(orders, hits, strict=True)
        ]

    monkeypatch.setattr(again.trials, "run", run)
    proof = again.prove(answered.row)
    assert not proof.holds and proof.wrong is not None


def test_more_traffic_never_needs_less(answered: PlanResult) -> None:
    worth = [
        answered.answer.score[carrier.row] for carrier in answered.answer.front if carrier.row is not None
    ]
    assert worth == sorted(worth)


def test_greedy_goes_on_past_a_platform_that_fails_its_proof(answered: PlanResult) -> None:
    """It once came back to the same platform for ever."""
    search = answered.answer.search
    again = Search(search.on, search.platforms, search.trials)
    again.found.tallies, again.found.kept = search.found.tallies, search.found.kept
    first = next(rival for rival in answered.answer.rivals if rival.name == "greedy, gain per cost")
    assert first.row is not None and first.proof is not None
    again._proofs[first.row] = replace(first.proof, holds=False)
    found = greedy(again, search.platforms.cost, per_cost=True)
    assert first.row in again.found.failed and found.row != first.row


def test_headroom_is_the_most_traffic_within_the_bounds() -> None:
    """A little more breaks the found platform, and nobody carries more than the bound."""
    asked = question(target="headroom", bounds={"cost": 24.0, "devices": 4})
    result = plan(asked)
    answer = result.answer
    assert result.row is not None and answer.proof is not None and answer.proof.holds
    assert answer.platforms.cost[result.row] <= 24.0
    carried, nobody = answer.search.factor, answer.nobody
    assert nobody is not None and 1.0 <= carried <= nobody
    assert (
        f"at {carried:.3g} times the stated traffic; nobody could at {nobody:.3g} times"
        in result.sentences()[0]
    )
    beyond = Search(answer.search.on, answer.platforms, answer.search.trials, nobody)
    assert all(beyond.screen.refuted(row) for row in answer.platforms.largest.tolist())
    more = plan(
        question(bounds={"cost": 24.0, "devices": 4}, search={**asked["search"], "headroom": carried - 1.0})
    )
    assert more.row is not None, "the plan of least cost finds a platform at that traffic, too"
    beyond_it = {**asked["search"], "headroom": 1.1 * carried - 1.0}
    assert plan(question(bounds={"cost": 24.0, "devices": 4}, search=beyond_it), rivals=False).row is None


def test_the_largest_platforms_are_those_to_which_nothing_can_be_added() -> None:
    platforms = catalogue(
        config := plan_from(question(bounds={"cost": 24.0})), [d.type for d in config.device]
    )
    for row in range(len(platforms)):
        more = [other for what, other in platforms.neighbours(row) if "less" not in what]
        more = [other for other in more if platforms.memory[other] >= platforms.memory[row]]
        assert (row in platforms.largest) == (not more)


def test_operating_points_are_types_of_the_catalogue(tmp_path: Path) -> None:
    """Power follows f V squared; a slow tenant gets the slow, thrifty point."""
    own = presets("types")["simba"].read_text()
    file = tmp_path / "own.toml"
    points = "".join(f"[[point]]\nclock_hz = {f}\nsupply_v = {v}\n" for f, v in ((1e9, 0.8), (2.5e8, 0.5)))
    file.write_text(f"{own}\n{points}")
    device = {"file": str(file), "most": 3, "power_w": 2.0, "clock_mhz": [1000, 250]}
    asked = question(target="power", device=[device])
    config = plan_from(asked)
    assert [one.power_w for one in config.devices] == pytest.approx([2.0, 2.0 / 4 * (0.5 / 0.8) ** 2])
    slow = {**asked["tenant"][0], "arrivals": {"process": "poisson", "rate_per_s": 500.0}}
    slow["models"] = [{"model": "four", "deadline_factor": 40.0, "slo": {"hit_rate": 0.9}}]
    result = plan({**asked, "tenant": [slow]}, rivals=False)
    assert result.row is not None and result.title.endswith("1 simba@250MHz, 4 GB/s")
    with pytest.raises(ConfigError, match="least does not say at which clock"):
        plan_from(question(device=[{**device, "least": 1}]))


def test_a_memory_that_cannot_hold_the_networks_is_left_out() -> None:
    small, large = {"gb_s": 4.0, "price": 1.0, "gb": 1e-5}, {"gb_s": 16.0, "price": 4.0, "gb": 1.0}
    on = ground(plan_from(question(memory=[small, large])))
    assert 1e-5 < on.need_gb < 1.0
    platforms = catalogue(on.plan, on.names, on.need_gb)
    assert (platforms.memory == 1).all() and len(platforms) == 63
    with pytest.raises(ConfigError, match=r"the largest \[\[memory\]\] has gb = 1e-05, the networks need"):
        plan(question(memory=[small]))


def test_a_memory_beside_measured_costs_says_what_a_word_takes(tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    lines = [f"{model},c{n},npu,1e-5\n" for model, count in (("four", 4), ("two", 2)) for n in range(count)]
    costs.write_text("model,layer,type,latency_s\n" + "".join(lines))
    asked = question(
        device=[{"type": "npu", "most": 2, "price": 1.0}],
        cost_csv=str(costs),
        memory=[{"gb_s": 8.0, "gb": 1.0}],
    )
    (said,) = [line for line in plan(asked, rivals=False).footnotes() if "cost_csv" in line]
    assert said.startswith(
        "[[memory]] has gb = 1: npu of cost_csv has no word size, so a weight counts as one byte"
    )
    unbounded = plan({**asked, "memory": [{"gb_s": 8.0}]}, rivals=False)
    assert not [line for line in unbounded.footnotes() if "cost_csv" in line]  # nothing that a size decides


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("plan_*.toml")), ids=lambda path: path.stem)
def test_an_example_can_be_asked(path: Path) -> None:
    azure = path.stem == "plan_azure"
    changes = [f"tenant.chat.arrivals.path={shared('traces/azure_llm_2023_conv.csv')}"] if azure else []
    on = ground(load_plan(path, changes))
    platforms = catalogue(on.plan, on.names)
    assert len(platforms) > 100
    assert (platforms.cost[:-1] <= platforms.cost[1:]).all()
    middle = len(platforms) // 2
    assert platforms.find(platforms.counts[middle].tolist(), int(platforms.memory[middle])) == middle
