"""Recorded traffic before the server's own dispatcher: cases by hand, and the same decisions as the simulator's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.serving.dispatch.overheads import DELAYS
from eunomia.study.serving.promotion import judge
from eunomia.study.serving.promotion import replay as judged
from eunomia.study.serving.replay import Replay
from eunomia.study.serving.twin import twin_of
from eunomia.study.serving.twin_predict import measured, predict, replayed, sent, simulated
from tests.serving.test_dispatcher import random_case

DEVICES = ("a", "b")
Requests = list[tuple[float, str, float | None]]  # arrival, network, deadline from then on


def recording(
    networks: dict[str, list[list[float]]], requests: Requests, devices: int = 1, **more: Any
) -> dict[str, Any]:
    """What a server would have recorded whose answers took no time: everything begins at once, and takes its means."""
    sizes = list(networks.values())
    rows = [
        [
            at,
            f"of-{name}",
            name,
            due,
            1,
            "hit",
            1.0,
            0.0,
            0.0,
            0.0,
            list(networks).index(name),
            0.0,
            0.0,
            0.0,
            0.0,
            0,
            -1,
        ]
        for at, name, due in requests
    ]
    nothing: list[list[float]] = [[] for _ in range(devices)]
    content = {
        "format": 8,
        "policy": "edf",
        "lease_s": 100.0,
        "late": "last",
        "max_batch": 1,
        "devices": list(DEVICES[:devices]),
        "networks": networks,
        "sizes": sizes,
        "look_s": 1e-3,
        "pairs": [
            {"tenant": f"of-{n}", "model": n, "weight": 1.0, "priority": 1.0, "slo": None} for n in networks
        ],
        "turn_s": [0.0] * devices,
        "move_s": [0.0] * devices,
        "spread": [0.0] * devices,
        "turns": nothing,
        "moves": nothing,
        "factors": nothing,
        "delays": {kind: nothing for kind in DELAYS},
        "runs": {name: nothing for name in networks},
        "whole": [],
        "options": {"ahead_s": 0.0, "starve_s": None, "calm_s": None},
        "requests": rows,
    }
    return content | more


def lost(devices: int = 1, **kinds: float) -> dict[str, list[list[float]]]:
    """What a start loses, by what it found."""
    return {kind: [[kinds.get(kind, 0.0)]] * devices for kind in DELAYS}


def responses(content: dict[str, Any], policy: str = "edf") -> list[float]:
    """Of the requests in order of arrival."""
    return [float(s) for s in replayed(twin_of(content), policy)[1]]


LONG, SHORT = [[1.0]] * 5, [[1.0]]


def test_an_urgent_request_ends_a_lease_at_the_next_boundary() -> None:
    # Blocks of 1 s. The long one runs from 0; at 1.5 an urgent one comes: it runs from 2 to 3, the long one until 6.
    content = recording({"long": LONG, "short": SHORT}, [(0.0, "long", 100.0), (1.5, "short", 2.5)])
    assert responses(content) == pytest.approx([6.0, 1.5])


def test_a_network_runs_in_one_piece_where_nobody_was_preferred_for_some_time() -> None:
    # Shortest first. All are as urgent, and have time for the long one, which begins at 10.
    requests: Requests = [(0.0, "short", 60.0), (10.0, "long", 60.0), (11.5, "short", 60.0)]
    content = recording({"long": LONG, "short": SHORT}, requests, whole=["long"])
    times = []
    for calm_s in (1.0, 20.0):
        options = {"ahead_s": 0.0, "starve_s": None, "calm_s": calm_s}
        times.append(responses(content | {"options": options}, "sjf"))
    assert times[0] == pytest.approx([1.0, 5.0, 4.5]) and times[1] == pytest.approx([1.0, 6.0, 1.5])


def test_each_start_loses_what_such_starts_lose() -> None:
    # first: 0.1 s; resumed after a lease of 2 s: 0.2; a second one that waits and is not known before: 0.4, ahead: 0.3.
    content = recording(
        {"long": LONG, "short": SHORT},
        [(0.0, "long", 100.0), (0.0, "short", 200.0)],
        delays=lost(first=0.1, again=0.2, asked=0.4, ahead=0.3, moved=9.0),
        lease_s=2.0,
    )
    # 0.1 + 2, 0.2 + 2, 0.2 + 1: the long one ends at 5.5, and the short one begins 0.4 later.
    assert responses(content) == pytest.approx([5.5, 6.9])
    ahead = content | {"options": {"ahead_s": 0.5, "starve_s": None, "calm_s": None}}
    assert responses(ahead) == pytest.approx([5.5, 6.8])
    for told, last in ((content, "asked"), (ahead, "ahead")):
        replay = Replay(twin_of(told), "edf")
        replay.play()
        seen = {kind: latest.draws() for kind, latest in replay.dispatcher.overheads[0].delays.items()}
        expected = {
            "first": [0.1],
            "again": [0.2, 0.2],
            last: [told["delays"][last][0][0]],
            "heard": [0.0] * 4,
        }
        assert {kind: pytest.approx(draws) for kind, draws in seen.items() if draws} == expected


def test_a_request_loses_before_each_run_as_much_beyond_the_mean_as_it_did() -> None:
    requests: Requests = [(0.0, "m", None), (5.0, "m", None), (10.0, "m", None), (15.0, "m", None)]
    content = recording({"m": [[1.0]] * 2}, requests, delays=lost(first=0.5))
    content["requests"][0][13:16] = [0.125, 0.5, 1]
    content["requests"][1][13:16] = [1.5, 1.25, 2]  # of two kinds
    content["requests"][2][13:16] = [1.0, 4.0, 2]  # a quarter of the mean
    assert responses(content, "fcfs") == pytest.approx([2.125, 2.625, 2.125, 2.5])


def test_the_front_end_looks_at_boundaries_as_late_as_it_did() -> None:
    """Blocks of 10 ms; the policy prefers who waits from 30 ms on, and is asked about that boundary, or the next."""

    def turns(view: View) -> list[Assign]:
        ready = list(view.ready["request"])
        wanted = max(ready) if view.now_s >= 0.03 else min(ready)
        return [view.assign(ready.index(wanted), 0)] if len(view.idle) else []

    requests: Requests = [(0.0, "long", None), (0.0, "short", None)]
    found = []
    for late_s in (0.0, 0.03):
        content = recording({"long": [[0.01]] * 5, "short": [[0.01]]}, requests, delays=lost(wake=late_s))
        found.append([float(s) for s in replayed(twin_of(content), turns)[1]])
    assert found == [pytest.approx([0.06, 0.04]), pytest.approx([0.06, 0.05])]


def test_a_request_takes_what_it_took_where_it_ran_and_what_others_took_elsewhere() -> None:
    content = recording({"m": [[1.0, 1.0]] * 2}, [(0.0, "m", None), (0.0, "m", None)], devices=2)
    content["runs"] = {"m": [[7.0], [3.0]]}
    for row in content["requests"]:
        row[11:] = [1.0, 2.0, 0.0, 0.0, 2, 0]  # both ran on the first device, in half of the mean
    assert responses(content, "fcfs") == pytest.approx([1.0, 6.0])
    for row in content["requests"]:
        row[11:] = [3.0, 2.0, 0.0, 0.0, 2, -2]  # on both of them, half as long again as in the mean
    assert responses(content, "fcfs") == pytest.approx([3.0, 3.0])


@pytest.mark.parametrize(("there_s", "leaves"), [(5.7, True), (5.9, False)])
def test_a_request_changes_its_device_only_where_that_gains(there_s: float, leaves: bool) -> None:
    # Blocks of 1 s on a, of 4 s on b. The second request begins on b; a idles from 3 on. At 4 two blocks are left: 8 s
    # on b, 2 s on a (2.2 counted) and what a start after a change loses.
    content = recording(
        {"m": [[1.0, 4.0]] * 3},
        [(0.0, "m", None), (0.0, "m", None)],
        devices=2,
        delays=lost(2, moved=there_s),
        moves=[[], [there_s]],
        move_s=[0.0, there_s],
    )
    assert responses(content, "fcfs") == pytest.approx([3.0, 4.0 + there_s + 2.0 if leaves else 12.0])


@pytest.mark.parametrize("policy", ["fcfs", "edf+f", "weighted_fair"])
@pytest.mark.parametrize("seed", [0, 1])
def test_without_leases_the_dispatcher_decides_as_the_simulator(policy: str, seed: int) -> None:
    latency_s, blocks, requests = random_case(seed)
    first = np.concatenate([[0], np.cumsum(blocks)])
    networks = {f"m{n}": latency_s[first[n] : first[n + 1]].tolist() for n in range(3)}
    content = recording(
        networks, [(at, f"m{n}", due - at) for at, n, due, _ in requests], devices=2, lease_s=0.0, look_s=0.0
    )
    twin = twin_of(content)
    np.testing.assert_allclose(replayed(twin, policy)[1], simulated(twin, policy)[1], atol=1e-6)


def test_a_way_in_and_a_way_out_are_part_of_the_response() -> None:
    content = recording({"m": SHORT}, [(0.0, "m", 1.3), (10.0, "m", 1.5)])
    for row in content["requests"]:
        row[8:10] = [0.125, 0.25]
    hit, response_s = replayed(twin_of(content), "edf")
    assert hit.tolist() == [False, True] and response_s == pytest.approx([1.375, 1.375])


def waiting_clients(
    served_s: float, think_s: float = 0.01, clients: int = 3, count: int = 40
) -> dict[str, Any]:
    """One device; clients that send their next request so long after an answer, first come, first served."""
    free_s, ready, rows = 0.0, [0.001 * n for n in range(clients)], []
    for _ in range(count):
        at = min(ready)
        free_s = max(free_s, at) + served_s
        ready[ready.index(at)] = free_s + think_s
        rows.append(
            [at, "of-m", "m", None, 1, "late", free_s - at, 0.0, 0.0, 0.0, 0, served_s, 1.0, 0.0, 0.0, 1, 0]
        )
    content = recording({"m": [[1.0]]}, [])
    return content | {"requests": rows}


def test_clients_that_wait_for_answers_are_not_piled_up_before_a_slower_server() -> None:
    """Recorded at 0.5 s a request; told that each takes 1 s, three clients wait for 3 s each, whatever the length."""
    content = waiting_clients(0.5)
    assert responses(content) == pytest.approx([r[6] for r in content["requests"]])
    for row in content["requests"]:
        row[11] = 1.0
    found = sent(twin_of(content), "edf")[2]
    assert found[:3] == pytest.approx([1.0, 2.0, 3.0], abs=0.01) and found[3:] == pytest.approx(2.99)
    assert len(found) == 21, "they stop when the recording ends"
    assert responses(content) == pytest.approx(np.repeat(found, 2)[:40], abs=0.01)
    rng = np.random.default_rng(0)
    alone = [
        [float(rng.uniform(0.0, 20.0)), *r[1:]] for r in content["requests"]
    ]  # as many, sent by themselves
    assert max(responses(content | {"requests": alone})) > 15.0


@pytest.mark.parametrize(("asked_per_s", "kept"), [(1.9, True), (2.5, False)])
def test_a_slow_policy_does_not_keep_throughput_because_fewer_requests_came(
    asked_per_s: float, kept: bool
) -> None:
    """Three clients that wait have two answers a second; they send no more than that."""
    content = waiting_clients(0.5)
    content["pairs"][0]["slo"] = {
        "target": asked_per_s,
        "kind": "throughput",
        "percentile": 95.0,
        "window_s": 5.0,
        "window_requests": 10,
    }
    assert (judged(twin_of(content), "fcfs").gap[0] <= 0.0) == kept


def test_a_verdict_says_where_the_replay_is_far_from_what_was_recorded() -> None:
    requests: Requests = [(3.0 * n, "m", 1.5) for n in range(250)]
    content = recording({"m": SHORT}, requests, policy="fcfs")
    assert not judge(twin_of(content), "edf", "fcfs").doubt
    for row in content["requests"][:50]:
        row[5] = "late"
    verdict = judge(twin_of(content), "edf", "fcfs")
    assert verdict.doubt == (
        "the twin is off for 'of-m, m': hits 80.0% recorded, 100.0% replayed under the policy that served"
    )
    assert not judge(twin_of(content), "fcfs", "edf").doubt, "nobody recorded what this one did"


def test_a_policy_that_never_starts_anything_answers_nobody_and_ends() -> None:
    content = recording({"m": SHORT}, [(0.0, "m", 1.0)])
    hit, response_s = replayed(twin_of(content), lambda view: [])
    assert hit.tolist() == [False] and response_s[0] == pytest.approx(6.0, abs=0.5), (
        "after 5 s the guard decides"
    )


def test_who_waits_for_a_batch_that_never_fills_gets_no_answer() -> None:
    class Pairs:
        wake_s = 0.01

        def __call__(self, view: View) -> list[Assign]:
            return [view.assign(0, 0)] if len(view.ready) > 1 else []

    content = recording({"m": SHORT}, [(0.0, "m", None), (0.5, "m", None), (100.0, "m", None)])
    hit, response_s = replayed(twin_of(content), Pairs())
    assert hit.tolist() == np.isfinite(response_s).tolist() and hit.sum() == 2, "the last waits alone"


def test_a_client_that_left_leaves_as_soon_in_the_replay_and_a_failure_is_no_answer() -> None:
    # The first runs from 0 to 5; the second left after 2 s, while it waited; the third failed.
    requests: Requests = [(0.0, "long", 9.0), (1.0, "short", 99.0), (1.5, "short", 99.0)]
    content = recording({"long": LONG, "short": SHORT}, requests)
    fates = [("hit", 5.0), ("cancelled", 2.0), ("model_failed", 6.0)]
    for row, fate in zip(content["requests"], fates, strict=True):
        row[5:7] = fate
    hit, response_s = replayed(twin_of(content), "fcfs")
    assert hit.tolist() == [True, False, False]
    np.testing.assert_allclose(response_s, [5.0, math.nan, math.nan])
    content["requests"][2][5] = "late"
    assert replayed(twin_of(content), "fcfs")[1][2] == pytest.approx(6.0 - 1.5), (
        "nobody waits for one that left"
    )


def test_the_same_request_draws_the_same_numbers_under_every_policy() -> None:
    requests: Requests = [(0.0, "m", 9.0), (0.1, "m", 5.0), (0.2, "m", 2.0)]
    content = recording({"m": SHORT}, requests, runs={"m": [[0.5, 1.0, 1.5, 2.0, 3.0]]})
    took = []
    for policy in ("fcfs", "edf"):
        finish_s = Replay(twin_of(content), policy).play().finish_s
        took.append(sorted(np.diff(np.sort(finish_s), prepend=0.0).tolist()))
    assert took[0] == pytest.approx(took[1]) and len(set(took[0])) > 1


def test_a_change_of_device_is_not_free_where_none_was_recorded() -> None:
    content = recording({"m": [[1.0, 4.0]] * 3}, [(0.0, "m", None)], devices=2)
    content["delays"] = {kind: [[], []] for kind in DELAYS} | {"asked": [[0.25], [0.25]]}
    server = twin_of(content).server
    assert server is not None
    assert server.delays["moved"] == [[0.5, 0.5]] * 2 and server.delays["heard"] == [[0.0]] * 2


def test_one_seed_one_answer() -> None:
    content = recording({"m": LONG}, [(float(n), "m", 9.0) for n in range(30)], runs={"m": [[0.5, 1.0, 1.5]]})
    twin = twin_of(content)
    one, same, other = (Replay(twin, "edf", seed).play().response_s for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert one.tolist() != other.tolist()


def test_an_older_recording_is_told_by_the_engine() -> None:
    content = recording({"long": LONG, "short": SHORT}, [(0.0, "long", 100.0), (1.5, "short", 2.5)])
    old = content | {"format": 6, "requests": [r[:11] for r in content["requests"]]}
    twin = twin_of(old)
    assert twin.server is None and predict(twin, "edf").overall == measured(twin).overall == 1.0
    np.testing.assert_array_equal(replayed(twin, "edf")[1], simulated(twin, "edf")[1])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"delays": {**lost(), "first": [[-1.0]]}}, "delays, first is -1.0; it lies in 0..10"),
        (
            {"delays": {**lost(), "moved": []}},
            "delays, moved is \\[\\]; it has a list for each device, 1 in all",
        ),
        ({"delays": {}}, "KeyError"),
        ({"runs": {"m": [["x"]]}}, "runs of 'm' is 'x'"),
        ({"whole": ["other"]}, "whole is \\['other'\\]; it names networks of the recording"),
        ({"whole": "m"}, "whole is 'm'"),
        ({"options": {"ahead_s": -1.0, "starve_s": None, "calm_s": None}}, "ahead_s is -1.0; it lies in"),
        ({"lease_s": "long"}, "lease_s is 'long'"),
        (
            {
                "requests": [
                    [0.0, "of-m", "m", 1.0, 1, "hit", 1.0, 0.0, 0.0, 0.0, 0, 1e300, 1.0, 0.0, 0.0, 1, 0]
                ]
            },
            "1e.300 s, 1e.300 times its",
        ),
        (
            {
                "requests": [
                    [0.0, "of-m", "m", 1.0, 1, "hit", 1.0, 0.0, 0.0, 0.0, 0, -1.0, 1.0, 0.0, 0.0, 1, 0]
                ]
            },
            "worked for -1.0 s",
        ),
        (
            {
                "requests": [
                    [0.0, "of-m", "m", 1.0, 1, "hit", 1.0, 0.0, 0.0, 0.0, 0, 1.0, 1.0, 0.0, 0.0, 1, "a"]
                ]
            },
            "on device 'a'",
        ),
    ],
)
def test_what_is_damaged_is_said(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        twin_of(recording({"m": SHORT}, [(0.0, "m", 1.0)]) | change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weight": "abc"}, "the pair of 'of-m' and 'm' has weight 'abc'; it is a number from 0 on"),
        ({"priority": math.nan}, "has priority nan"),
        ({"tenant": 3}, "has a name that is no text"),
        ({"slo": {"target": 7.0, "kind": "hit_rate"}}, "was promised {'target': 7.0, .*it must lie in 0..1"),
        ({"slo": {"wrong": 1}}, "was promised {'wrong': 1}"),
    ],
)
def test_a_damaged_pair_is_told_in_words(change: dict[str, Any], says: str) -> None:
    content = recording({"m": SHORT}, [(0.0, "m", 1.0)])
    content["pairs"][0] |= change
    with pytest.raises(ConfigError, match=f"damaged recording: .*{says}"):
        twin_of(content)


def test_a_network_that_no_device_runs_to_its_end_is_damaged() -> None:
    with pytest.raises(ConfigError, match="no device runs all blocks of network 'm'"):
        twin_of(recording({"m": [[1.0, -1.0], [-1.0, 1.0]]}, [(0.0, "m", 1.0)], devices=2))


def test_a_client_who_is_faster_than_it_was_goes_on_until_the_recording_ends() -> None:
    """One client of 1 s a request; told that each takes half of it, it meets who comes by himself at 39.14 s."""
    content = waiting_clients(1.0, clients=1)
    for row in content["requests"]:
        row[11] = 0.5
    alone = [39.14, "of-n", "n", None, 1, "late", 0.5, 0.0, 0.0, 0.0, 1, 0.5, 1.0, 0.0, 0.0, 1, 0]
    both = recording({"m": [[1.0]], "n": [[1.0]]}, []) | {"requests": [*content["requests"], alone]}
    pair, _, response_s = sent(twin_of(both), "fcfs")  # its 77th request runs from 38.76 to 39.26
    assert response_s[pair == 1] == pytest.approx(0.62)
    assert response_s[pair == 0] == pytest.approx([0.5] * 77 + [0.99])


@pytest.mark.parametrize(("luckier", "late", "of"), [(True, 1, 78), (False, 1, 40)])
def test_all_that_waiting_clients_send_in_a_replay_counts_and_nothing_else(
    luckier: bool, late: int, of: int
) -> None:
    """A client that is faster than it was is late once, beyond its recording; one of three waits to the end."""

    def not_the_first(view: View) -> list[Assign]:
        return [view.assign(int(view.ready["request"].argmax()), 0)] if len(view.idle) else []

    content = waiting_clients(1.0, clients=1) if luckier else waiting_clients(0.5)
    for row in content["requests"]:
        row[3], row[11] = 0.9 if luckier else 2.0, 0.5
    alone = [39.14, "of-n", "n", None, 1, "late", 0.5, 0.0, 0.0, 0.0, 1, 0.5, 1.0, 0.0, 0.0, 1, 0]
    if luckier:
        content = recording({"m": [[1.0]], "n": [[1.0]]}, []) | {"requests": [*content["requests"], alone]}
    told = predict(twin_of(content), "fcfs" if luckier else not_the_first)
    assert told.hit_rate[0] == pytest.approx(1.0 - late / of)


def test_a_recording_of_the_format_before_is_replayed_in_the_engine() -> None:
    """As it was, one of the same number with a column less was called damaged, by an IndexError."""
    content = recording({"long": LONG, "short": SHORT}, [(0.0, "long", 100.0), (1.5, "short", 2.5)])
    del content["delays"]["wake"]
    older = content | {"format": 7, "requests": [[*row[:14], *row[15:]] for row in content["requests"]]}
    twin = twin_of(older)
    assert twin.server is None and len(replayed(twin, "edf")[1]) == 2
