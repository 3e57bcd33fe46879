"""Questions that nobody prepared: missing prices, promises that nothing tests, memories with gaps, idle devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.study.plan import plan, plan_from
from eunomia.study.plan.answer import Answer, work_of
from eunomia.study.plan.catalogue import catalogue
from eunomia.study.plan.crew import Trials
from eunomia.study.plan.ground import ground
from eunomia.study.plan.prices import unpriced
from eunomia.study.plan.result import PlanResult
from eunomia.study.plan.rivals import greedy
from eunomia.study.plan.run import _checked
from eunomia.study.plan.search import Proof, Search, lower_rates
from eunomia.study.plan.trial import Tally
from tests.study.test_plan import question


def cheap(**changes: Any) -> dict[str, Any]:
    """Few requests, one policy, no front."""
    search = {"seeds": 1, "fresh": 2, "cost_error": 0.0, "policies": ["edf+f+eft"], "front": []}
    return question(**{"search": search, "duration_s": 0.01, **changes})


def devices(**given: dict[str, float]) -> list[dict[str, Any]]:
    return [{"type": kind.replace("_", "-"), "most": 2, **more} for kind, more in given.items()]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": devices(simba={})}, r"target is cost, but no \[\[device\]\] has price or rent_per_h"),
        ({"device": devices(simba={"price": 1.0}), "target": "area"}, "target is area, .* has area_mm2"),
        (
            {"device": devices(simba={"price": 1.0}), "bounds": {"power_w": 5.0}},
            "bounds.power_w is 5, .* has power_w",
        ),
    ],
    ids=["cost", "area", "bound"],
)
def test_a_target_that_no_device_has_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan(cheap(memory=[{"gb_s": 16.0}], **changes))


def test_a_device_without_a_price_is_named() -> None:
    result = plan(cheap(device=devices(simba={"price": 1.0}, systolic={})), rivals=False)
    assert "systolic: no price or rent_per_h in the plan, counted as 0" in result.footnotes()
    owned = plan_from(cheap(device=devices(simba={"price": 1.0}, systolic={"price": 0.0}, eyeriss_chip={})))
    (said,) = unpriced(_checked(owned, ["search.fresh=3"]))
    assert said.startswith("eyeriss-chip: no price")
    full = plan(cheap(device=devices(simba={"price": 1.0}, systolic={"price": 2.0})), rivals=False)
    assert not [note for note in full.footnotes() if "counted as 0" in note]


@pytest.mark.parametrize(
    "arrivals", [{"process": "periodic", "period_s": 1.0}, {"process": "poisson", "rate_per_s": 1e-9}]
)
def test_a_promise_that_no_request_tests_is_refused(arrivals: dict[str, Any]) -> None:
    """It once was kept by every platform; without any other promise the plan ended in a stack trace."""
    first, second = question()["tenant"]
    asked = cheap(tenant=[first, {**second, "arrivals": arrivals}], warmup_s=0.001)
    with pytest.raises(
        ConfigError, match="tenant 'b' sends no request for 'two' .* on 1 seed, .* raise duration_s"
    ):
        plan(asked)


def test_hits_in_a_row_are_not_certainty() -> None:
    """Of n requests none missed: at 95 % confidence the rate is at least 0.05 ** (1 / n). Repeated ones count once."""
    slow = [
        {**tenant, "arrivals": {"process": "periodic", "period_s": 0.001}} for tenant in question()["tenant"]
    ]
    result = plan(cheap(tenant=slow, device=devices(simba={"price": 1.0})), rivals=False)
    for promise in result.data()["promises"]:
        assert promise["fresh"]["mean"] == 1.0
        assert promise["at_least"] == pytest.approx(0.05 ** (1 / 10))  # ten requests, the same on both seeds
    said = " ".join(result.sentences())
    assert (
        "a/four kept it on all 10 requests of the fresh seeds; that many show 74.1 %, 90 % are promised"
        in said
    )
    notes = " ".join(result.footnotes())
    assert "every fresh seed has the same requests of a, b" in notes
    assert "every fresh seed" not in " ".join(plan(cheap(), rivals=False).footnotes())


def test_too_few_requests_are_not_blamed_on_the_hardware() -> None:
    """Hit rates of 1 and 0.95 have a mean of 0.975, yet on two seeds a bound of 0.82: more traffic tells."""
    few = Tally("edf", np.array([[20], [19]]), np.array([[20], [20]]), 0.0, np.zeros(1), 0.0, 1.0)
    proof = Proof(few, None, lower_rates(few, 0.95), lower_rates(few, 0.95), False, np.array([40]))
    assert proof.lower[0] == pytest.approx(0.975 - 6.3138 * 0.025, abs=1e-4)
    assert proof.short_of_requests(np.array([0.9])) and not proof.short_of_requests(np.array([0.98]))
    config = plan_from(cheap())
    on = ground(config)
    platforms = catalogue(config, on.names, on.need_gb)
    with Trials(1, None) as trials:
        search = Search(on, platforms, trials)
        search.targets = np.array([0.9])
        search.found.tallies[0], search.found.failed[0] = few, proof
        (said, *_) = PlanResult(Answer(search=search, row=None, proof=None, score=platforms.cost,
                                       work=work_of(search, None))).sentences()  # fmt: skip
    assert said.endswith("raise duration_s or fresh") and "widen" not in said


def test_requests_that_seeds_repeat_count_once(tmp_path: Path) -> None:
    """Three arrivals of a recording, 30 of a random process, and one whose first two seeds drew nothing."""
    log = tmp_path / "log.csv"
    log.write_text("arrival_s\n0.001\n0.002\n0.004\n")
    first, second = question()["tenant"]
    loop = {"trace": "canonical", "path": str(log), "loop": True}
    on = ground(plan_from(cheap(tenant=[{**first, "arrivals": loop}, second])))
    assert on.repeated.tolist() == [True, False] and on.replayed == ["a"]
    assert on.distinct(np.array([[8, 10], [8, 20]])).tolist() == [3, 30]
    rare = {"process": "poisson", "rate_per_s": 20.0}
    asked = cheap(tenant=[first, {**second, "arrivals": rare}])
    asked["search"]["fresh"] = 8
    few = ground(plan_from(asked))
    drawn = [len(few.requests(seed).pair[few.requests(seed).pair == 1]) for seed in few.seeds(8, fresh=1)]
    assert drawn.count(0) >= 2 and any(drawn) and not few.repeated[1]


def test_a_memory_that_is_left_out_is_stepped_over() -> None:
    """Greedy growth once stopped below a memory too small for the networks, and none was said to keep the promises."""
    memory = [
        {"gb_s": 0.5, "price": 1.0},
        {"gb_s": 4.0, "gb": 1e-6, "price": 2.0},
        {"gb_s": 16.0, "price": 4.0},
    ]
    config = plan_from(cheap(memory=memory))
    on = ground(config)
    platforms = catalogue(config, on.names, on.need_gb)
    assert set(platforms.memory.tolist()) == {0, 2}
    row = platforms.find([1, 1, 1], 0)
    assert row is not None and ("memory of 16 GB/s", platforms.find([1, 1, 1], 2)) in platforms.neighbours(
        row
    )
    assert set(platforms.memory[platforms.largest].tolist()) == {2}
    with Trials(1, None) as trials:
        assert greedy(Search(on, platforms, trials), platforms.cost, per_cost=True).row is not None


def test_memories_of_one_speed_are_told_apart() -> None:
    config = plan_from(
        cheap(memory=[{"gb_s": 16.0, "price": 4.0}, {"gb_s": 4.0}, {"gb_s": 16.0, "price": 3.0}])
    )
    platforms = catalogue(config, ground(config).names)
    assert platforms.memories == ("4 GB/s", "16 GB/s (memory 1)", "16 GB/s (memory 3)")


def test_headroom_buys_no_device_that_its_traffic_does_not_need() -> None:
    """It once took the largest platform within the bounds, chips without work included."""
    slow = [
        {**tenant, "arrivals": {"process": "periodic", "period_s": 0.001}} for tenant in question()["tenant"]
    ]
    result = plan(cheap(tenant=slow, target="headroom"), rivals=False)
    answer = result.answer
    assert result.row is not None and answer.proof is not None and answer.proof.holds
    search, platforms = answer.search, answer.platforms
    assert platforms.counts[result.row].sum() < 9
    for change, other in platforms.neighbours(result.row):
        if platforms.inside(result.row)[other]:
            kept = search.tried([other], "test")[0] if search.screen.refuted(other) is None else False
            assert not (kept and search.prove(other).holds), change


def test_headroom_says_when_it_stopped_looking() -> None:
    slow = [
        {**tenant, "arrivals": {"process": "periodic", "period_s": 0.005}} for tenant in question()["tenant"]
    ]
    said = plan(cheap(tenant=slow, target="headroom"), rivals=False).sentences()[0]
    assert "at 11.4 times the stated traffic, the most that is tried" in said
