"""A policy rehearsed on one half of a server's recording, judged on the other, and put in by name."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eunomia.inference.policies import load_policy
from eunomia.study.serving.promotion import NotPassed, judge, replay
from eunomia.study.serving.rehearsing import Redrawn, halves, rehearse_on, rehearses
from eunomia.study.serving.twin import Twin, twin_of
from tests.serving.test_promotion import traffic

SMALL = "rehearse=300000"


def recording(count: int = 900, load: float = 1.3, promised: bool = True, **more: Any) -> Twin:
    content = traffic(count=count, load=load)
    if not promised:
        content["pairs"] = [{**pair, "slo": None} for pair in content["pairs"]]
    return twin_of({**content, **more})


def test_halves_share_nothing_and_lose_nothing() -> None:
    twin = recording(901)
    first, second = halves(twin)
    assert len(first.requests) == 450 and len(second.requests) == 451
    assert np.array_equal(np.concatenate([first.hit, second.hit]), twin.hit)
    joined = np.concatenate([first.requests.pair, second.requests.pair])
    assert np.array_equal(joined, twin.requests.pair)
    assert first.requests.arrival_s[0] == second.requests.arrival_s[0] == 0.0
    gaps = np.diff(twin.requests.arrival_s)
    assert np.allclose(np.diff(second.requests.arrival_s), gaps[450:])
    with pytest.raises(NotPassed, match="holds 399 requests; 400 are needed"):
        halves(recording(399))


def test_drawn_traffic_is_like_the_recording_and_never_the_same_twice() -> None:
    twin = recording()
    like = Redrawn(twin.requests, 900).first(300)
    one, again, other = like.draw(3), like.draw(3), like.draw(4)
    assert np.array_equal(one.arrival_s, again.arrival_s) and not np.array_equal(
        one.arrival_s, other.arrival_s
    )
    rates = [len(r) / r.arrival_s[-1] for r in (one, twin.requests)]
    assert rates[0] == pytest.approx(rates[1], rel=0.2) and abs(len(one) - 300) < 60


def test_only_a_policy_with_a_budget_is_rehearsed() -> None:
    assert rehearses("eunomia") and rehearses("eunomia(promise=attainment)")
    assert not any(rehearses(name) for name in ("edf+f", "eunomia(rehearse=0)", "eunomia-wide"))


@pytest.mark.parametrize("promised", [True, False])
def test_what_is_chosen_can_serve_and_is_no_worse_than_first_come_first_served(promised: bool) -> None:
    first, second = halves(recording(promised=promised))
    wish = "promise=attainment," if promised else ""
    name, made = rehearse_on(first, f"eunomia({wish}{SMALL})")
    assert "lookahead" not in name and not any("lookahead" in tried for tried in made.scores)
    assert bool(made.aim) == promised
    assert not rehearses(name)
    assert replay(second, name).hit_rate > replay(second, "fcfs").hit_rate + 0.05
    assert judge(second, name, "fcfs").passed


def test_the_second_half_is_not_read() -> None:
    twin = recording()
    first, _ = halves(twin)
    other = copy.deepcopy(twin)
    other = replace(other, requests=replace(other.requests, relative_deadline_s=np.concatenate(
        [twin.requests.relative_deadline_s[:450], np.full(450, 9.0)])))  # fmt: skip
    wish = f"eunomia(promise=attainment,{SMALL})"
    assert rehearse_on(first, wish)[0] == rehearse_on(halves(other)[0], wish)[0]


def test_the_favourite_serves_without_a_rehearsal_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from eunomia.inference import rehearsal

    monkeypatch.setattr(
        rehearsal, "rehearse", lambda _problem, _options, own, *_: rehearsal.Rehearsed(next(iter(own)))
    )
    name, _ = rehearse_on(recording(), "eunomia")
    assert name == "eunomia-attainment(rehearse=0)" and load_policy(name).budget == 0  # type: ignore[attr-defined]
