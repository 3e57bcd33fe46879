"""Questions that nobody prepared: missing prices, promises that nothing tests, memories with gaps, idle devices."""

from __future__ import annotations

from collections.abc import Callable
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
from eunomia.study.plan.untested import enough_s, judged
from eunomia.study.serving.twin import twin_of
from eunomia.study.serving.twin_scenario import write_scenario
from eunomia.workload.arrivals import Replay
from tests.serving.test_twin_sizes import mixed
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


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A question about a server's recording: promises for a tenant that sends all the time, and for a late one."""

    def asked(often: int, seldom: int, late: int, **changes: Any) -> dict[str, Any]:
        """So many requests of one size, of another (its own network in a plan), and of the tenant that comes late."""
        sizes = [0] * often + [1] * seldom
        rows = [
            [float(n), "early", "m", 30.0, 1, "hit", 1.0, 0.0, 0.0, 0.0, size] for n, size in enumerate(sizes)
        ]
        end_s = float(len(sizes))
        rows += [
            [end_s - 0.5 + 0.1 * n, "late", "m", 30.0, 1, "hit", 1.0, 0.0, 0.0, 0.0, 0] for n in range(late)
        ]
        slo = {"target": 0.5, "kind": "hit_rate", "percentile": 95.0, "window_s": 10.0, "window_requests": 10}
        pair = {"model": "m", "weight": 1.0, "priority": 1.0, "slo": slo}
        pairs = [{"tenant": tenant, **pair} for tenant in ("early", *(["late"] if late else []))]
        write_scenario(twin_of(mixed([]) | {"requests": rows, "pairs": pairs}), tmp_path)
        search = {"seeds": 1, "fresh": 2, "cost_error": 0.0, "policies": ["edf+f+eft"], "front": []}
        device = [{"type": "a", "most": 2, "rent_per_h": 1.0}]
        scenario = str(tmp_path / "scenario.toml")
        return {"name": "served", "scenario": scenario, "device": device, "search": search, **changes}

    return asked


def test_a_shape_that_a_recording_has_too_seldom_is_not_judged(
    recorded: Callable[..., dict[str, Any]],
) -> None:
    """It once asked for a higher rate of it, which a recording has not; all else is judged, and its requests come."""
    result = plan(recorded(often=79, seldom=1, late=0), rivals=False)
    (promise,) = result.data()["promises"]
    (said,) = [sentence for sentence in result.sentences() if "is not judged" in sentence]
    assert said.startswith(
        "the promise of early/m-size1-rows1 is not judged: the trace draws it for one in 80 requests"
    )
    assert promise["pair"] == "early/m" and result.row is not None
    with_all = ground(plan_from(recorded(often=40, seldom=40, late=0)))
    assert judged(with_all) is with_all


def test_a_pause_names_a_duration_that_has_requests(recorded: Callable[..., dict[str, Any]]) -> None:
    """Of 80 s the last half second; by default a seed replays a quarter. What the error says is done, and helps."""
    asked = recorded(often=80, seldom=0, late=5)
    with pytest.raises(
        ConfigError, match="'late' .* its trace has 5 requests .* duration_s above"
    ) as refused:
        plan(asked, rivals=False)
    needed_s = float(str(refused.value).rpartition(" ")[2])
    assert 79.5 <= needed_s <= 80.0
    on = ground(plan_from({**asked, "duration_s": needed_s + 0.01}))
    assert judged(on) is on


def test_every_run_longer_than_said_has_a_request() -> None:
    """And some run of that length has none. Traces with pauses, from their start or from anywhere, with a warm-up."""
    short = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        times = np.cumsum(rng.exponential(1.0, 12) * rng.choice([0.1, 20.0], 12, p=[0.8, 0.2]))
        window, warmup_s = ("random", "start")[seed % 2], float(rng.choice([0.0, 3.0, 30.0]))
        process = Replay(times, loop=bool(rng.integers(2)), window=window)  # type: ignore[arg-type]
        needs_s = enough_s(process, warmup_s)
        if needs_s is None:
            assert (times < warmup_s).all() and not process.loop
            continue
        runs = [process.times(np.random.default_rng(n), needs_s * 1.0001 + 1e-6) for n in range(40)]
        assert all((run >= warmup_s).any() for run in runs), seed
        shorter_s = needs_s * 0.8
        short += any((process.times(np.random.default_rng(n), shorter_s) < warmup_s).all() for n in range(40))
    assert short > 30


def test_all_that_a_trace_has_is_no_reason_to_replay_more_of_it(
    recorded: Callable[..., dict[str, Any]],
) -> None:
    result = plan(recorded(often=80, seldom=0, late=3, duration_s=90.0), rivals=False)
    (few,) = [sentence for sentence in result.sentences() if sentence.startswith("late/m kept it on all")]
    assert "all 3 requests of the fresh seeds; that many show 36.8 %, 50 % are promised" in few
    assert few.endswith("record longer, for these are all that the trace has")


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
