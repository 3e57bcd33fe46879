"""The digital twin: a recording replays as it was made, and predicts what another policy would do."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.study.serving.twin import read_twin, twin_of
from eunomia.study.serving.twin_predict import measured, predict, replayed
from eunomia.workload.tenant import Agreement, Slo
from tests.serving.test_dispatcher import Replay, random_case


def recording(seed: int, policy: str) -> dict[str, object]:
    """What a server with perfectly known block times would have recorded."""
    from eunomia.inference.policies import load_policy

    latency_s, blocks, requests = random_case(seed)
    replay = Replay(load_policy(policy), latency_s, blocks, DispatchOptions(lease_s=0.0))
    rows = []
    for n in range(3):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", Slo(0.9, window_requests=10)))
    leave = replay.dispatcher.leave

    def note(job, *, dropped=False):  # type: ignore[no-untyped-def]
        hit, now_s = leave(job, dropped=dropped), replay.clock.now_s()
        rows.append([job.arrival_s, f"t{job.pair}", f"m{job.pair}", job.deadline_s - job.arrival_s, 1,
                     "hit" if hit else "late", now_s - job.arrival_s, 0.0, 0.0, 0.0])  # fmt: skip
        return hit

    replay.dispatcher.leave = note  # type: ignore[method-assign]
    replay.play(requests)
    slo = {"target": 0.9, "kind": "hit_rate", "percentile": 95.0, "window_s": 10.0, "window_requests": 10}
    first = np.concatenate([[0], np.cumsum(blocks)])
    return {
        "format": 3, "policy": policy, "lease_s": 0.0, "late": "last", "max_batch": 1, "devices": ["a", "b"],
        "networks": {f"m{n}": latency_s[first[n] : first[n + 1]].tolist() for n in range(3)},
        "pairs": [{"tenant": f"t{n}", "model": f"m{n}", "weight": 1.0, "priority": 1.0, "slo": slo} for n in range(3)],
        "turn_s": 0.0, "spread": 0.0, "requests": rows,
    }  # fmt: skip


@pytest.mark.parametrize("policy", ["edf+f", "fcfs", "deficit_edf+f"])
def test_the_twin_repeats_what_the_server_did(policy: str) -> None:
    twin = twin_of(recording(3, policy))
    done, told = measured(twin), predict(twin, policy)
    np.testing.assert_allclose(told.hit_rate, done.hit_rate)
    np.testing.assert_allclose(told.p95_s, done.p95_s)


def test_the_twin_tells_another_policy_apart() -> None:
    twins = [twin_of(recording(seed, "fcfs")) for seed in range(4)]
    assert sum(predict(t, "edf+f+eft").overall for t in twins) > sum(measured(t).overall for t in twins)


def test_what_is_no_recording_is_said(tmp_path: Path) -> None:
    path = tmp_path / "twin.json"
    with pytest.raises(ConfigError, match="cannot read"):
        read_twin(path)
    path.write_text("{")
    with pytest.raises(ConfigError, match="is not JSON"):
        read_twin(path)
    path.write_text(json.dumps({"format": 1}))
    with pytest.raises(ConfigError, match="no recording of a server"):
        read_twin(path)
    empty = recording(0, "edf") | {"requests": []}
    with pytest.raises(ConfigError, match="holds no request"):
        twin_of(empty)
    with pytest.raises(ConfigError, match="format 9"):
        twin_of(empty | {"format": 9})
    older = {key: value for key, value in empty.items() if key not in ("turn_s", "spread")}
    with pytest.raises(
        ConfigError, match="has format 2; this version reads 3 to 8: record it again with: eunomia twin"
    ):
        twin_of(older | {"format": 2})


def test_a_recording_that_was_cut_off_is_said(tmp_path: Path) -> None:
    path = tmp_path / "twin.json"
    text = json.dumps(recording(0, "edf"))
    for length in range(len(text) - 300, len(text)):
        path.write_text(text[:length])
        if text[length - 1] != "}":
            with pytest.raises(ConfigError, match="cut off: record it again"):
                read_twin(path)
    for wrong in (text.replace(":", ";", 1), "hello", text + "}", text[:-1] + ",}"):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match="is not JSON") as told:
            read_twin(path)
        assert "cut off" not in str(told.value)


def test_a_damaged_recording_is_said() -> None:
    whole = recording(0, "edf")
    bad: list[dict[str, Any]] = [
        {"pairs": []},
        {"networks": {"m0": 3}},
        {"requests": [[1.0]]},
        {"turn_s": -1.0},
        {"spread": 7.0},
        {"turn_s": [0.0]},
        {"turn_s": [0.0, -1.0]},
        {"turn_s": ["0.1", "0.2"]},
        {"spread": True},
        {"requests": [[0.0, "t0", "m0", 4.0, 1, "hit", 1.0, 0.0, -0.5, 0.0]]},
        {"requests": [[0.0, "t0", "m0", 4.0, 1, "hit", 1.0, 0.0, 0.0, math.nan]]},
    ]
    for damage in bad:
        with pytest.raises(ConfigError, match="damaged recording"):
            twin_of(whole | damage)


def row(**changes: Any) -> dict[str, Any]:
    """A recording's requests: one, with other entries at their places."""
    places = {"arrival": 0, "deadline": 3, "response": 6, "reach": 8, "answer": 9}
    one: list[Any] = [0.0, "t0", "m0", 4.0, 1, "hit", 1.0, 0.0, 0.0, 0.0]
    for name, value in changes.items():
        one[places[name]] = value
    return {"requests": [one]}


def pair(**changes: Any) -> dict[str, Any]:
    """A recording's pairs: one, with other entries."""
    return {
        "pairs": [{"tenant": "t0", "model": "m0", "weight": 1.0, "priority": 1.0, "slo": None, **changes}]
    }


@pytest.mark.parametrize("damage, says", [
    (row(deadline=-0.5), "has a deadline of -0.5 s; null means none"), (row(deadline=math.nan), "a deadline of nan s"),
    (row(arrival=math.nan), "arrives at nan s"), (row(response=-1.0), "answered after -1.0 s"),
    (row(answer=math.inf), "took inf s to be heard or answered"),
    ({"networks": {"m0": []}}, "network 'm0' has no block times"),
    ({"networks": {"m0": [[1.0, math.nan]]}}, "block 0 of network 'm0' takes nan s"),
    ({"networks": {"m0": [[1.0, 1.0], [1.0]]}}, "block 1 of network 'm0' has 1 times for 2 devices"),
    ({"networks": {"m0": [[-1.0, -1.0]]}}, "block 0 of network 'm0' runs on no device"),
    ({"networks": {"m0": [[1.0, 0.0]]}}, "takes 0.0 s; -1 means"), ({"devices": []}, "for 0 devices"),
    ({"networks": {"other": [[1.0, 1.0]]}}, "no block times of the networks that were asked (m0)"),
    ({"late": "sometimes"}, "late is 'sometimes'; it is 'last' or 'drop'"), ({"late": ["drop"]}, "late is ['drop']"),
    ({"policy": 7}, "policy is 7; it is a name"), ({"max_batch": 0}, "max_batch is 0; it is a whole number from 1"),
    ({"max_batch": True}, "max_batch is True"), ({"max_batch": 2.5}, "max_batch is 2.5"),
    (pair(weight=math.nan), "has weight nan"), (pair(weight=-1), "has weight -1"), (pair(weight=True), "weight True"),
    (pair(priority="1"), "has priority '1'"), (pair(slo=0), "was promised 0"), (pair(slo=""), "was promised ''"),
    (pair(slo={"target": 7.0}), "target is 7.0"), (pair(slo={"target": True}), "all but its kind are numbers"),
    (pair(slo={"target": math.inf, "kind": "latency_mean"}), "all but its kind are numbers"),
    (pair(slo={"target": 0.9, "kind": "good"}), "unknown SLI kind 'good'"), (pair(slo={"aim": 1.0}), "was promised"),
    (pair(slo={"target": 0.9, "window_s": True}), "all but its kind are numbers"),
    (pair(slo={"target": 0.9, "window_requests": 2.5}), "all but its kind are numbers"),
])  # fmt: skip
def test_what_is_damaged_is_told_in_words(damage: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as told:
        twin_of(recording(0, "edf") | row() | damage, "twin.json")
    assert str(told.value).startswith("twin.json is a damaged recording: ") and says in str(told.value)


def test_a_turn_costs_what_its_own_device_loses() -> None:
    # Blocks of 1 s, two devices, two requests at once that go on where they are; then one more on each.
    rows = [[float(10 * (n // 2)), "t0", "m0", 9.0, 1, "hit", 2.0, 0.0, 0.0, 0.0] for n in range(4)]
    told = recording(0, "edf")
    told |= {"requests": rows, "networks": told["networks"] | {"m0": [[1.0, 1.0], [1.0, 1.0]]}}
    of = [response_s for _, response_s in (replayed(twin_of(told | more), "edf") for more in (
        {"turn_s": [0.0, 0.0]}, {"turn_s": [0.25, 0.0]}, {"turn_s": [0.25, 0.5]}, {"turn_s": 0.25}))]  # fmt: skip
    assert [sorted(r.tolist()) for r in of] == [
        [2, 2, 2, 2],
        [2, 2, 2, 2.25],
        [2, 2, 2.25, 2.5],
        [2, 2, 2.25, 2.25],
    ]


def test_what_a_run_and_an_answer_cost_is_told_too() -> None:
    rows = [
        [0.0, "t", "m", 2.5, 1, "hit", 2.375, 0.0, 0.125, 0.25],
        [10.0, "t", "m", 2.75, 1, "late", 3.0, 0.0, 0.125, 0.375],
    ]
    twin = twin_of({
        "format": 3, "policy": "edf", "lease_s": 0.0, "late": "last", "max_batch": 1, "devices": ["a"],
        "networks": {"m": [[1.0], [1.0]]},
        "pairs": [{"tenant": "t", "model": "m", "weight": 1.0, "priority": 1.0, "slo": None}],
        "turn_s": 0.5, "spread": 0.0, "requests": rows,
    })  # fmt: skip
    told = predict(twin, "edf")
    assert told.hit_rate[0] == measured(twin).hit_rate[0] == 0.5
    assert told.p95_s[0] == pytest.approx(measured(twin).p95_s[0])
