"""A network that takes no made-up input, as it wants certain values, is served all the same; requests tell its time."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices.network import UNTRIED_S, load_network
from eunomia.serving.devices.piece import Feed, array_of, live_of
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import TooLarge, Untried
from tests.serving.live import ADMIN, GOLD, SILVER, ask, running
from tests.serving.test_holding import BRONZE, Desk
from tests.serving.test_holding import GOLD as URGENT

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
SPLIT = "(float[6] x, int64[2] sizes) => (float[n] y, float[m] z) { y, z = Split <axis = 0> (x, sizes) }"


def split(folder: Path) -> str:
    """Neither zeros nor ones are six in all."""
    (folder / "split.onnx").write_bytes(onnx.parser.parse_model(HEAD + SPLIT).SerializeToString())
    return str(folder / "split.onnx")


@pytest.mark.parametrize("again", ["fresh", "from the cache"])
def test_it_is_loaded_whole_and_answers_as_the_runtime(tmp_path: Path, again: str) -> None:
    file = split(tmp_path)
    network = load_network(file, str(tmp_path), {}, 1e-3)
    if again != "fresh":
        network = load_network(file, str(tmp_path), {}, 1e-3, known_s=[0.25])
    assert network.block_s == [UNTRIED_S if again == "fresh" else 0.25]
    assert network.blocks == 1 and not network.has_whole and network.bound is not None
    said = network.description()
    assert "trial input of x [6], sizes [2]" in said["untried"] and said["shapes"] == {}
    feed: Feed = {"x": np.random.default_rng(0).random(6, np.float32), "sizes": np.array([2, 4])}
    live = network.run_block(0, live_of(feed))
    wanted = ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feed)
    assert [array_of(live[n]).tobytes() for n in "yz"] == [np.asarray(w).tobytes() for w in wanted]


def test_sizes_that_somebody_gave_and_do_not_run_are_refused(tmp_path: Path) -> None:
    file = split(tmp_path)
    with pytest.raises(ModelError, match=r"trial input of x \[6\]"):
        load_network(file, str(tmp_path), {"x": [6]}, 1e-3)
    assert load_network(file, str(tmp_path), {}, 1e-3).untried


def infer(server: Any, key: str, *sizes: int) -> tuple[int, Any]:
    tensors = [
        {"name": "x", "datatype": "FP32", "shape": [6], "data": [float(n) for n in range(6)]},
        {"name": "sizes", "datatype": "INT64", "shape": [2], "data": sizes},
    ]
    return ask(server, "POST", "/v2/models/split/infer", key, {"inputs": tensors})


def test_values_that_do_not_fit_are_refused_for_that_request_only(tmp_path: Path) -> None:
    """As it was, the load failed, and no option helped."""
    split(tmp_path)
    with running(tmp_path) as server:
        status, content = ask(server, "POST", "/v2/repository/models/split/load", ADMIN)
        assert status == 200, content
        for key in (GOLD, SILVER, GOLD):
            status, content = infer(server, key, 3, 4)
            assert (status, content["reason"]) == (400, "bad_input"), content
            status, content = infer(server, key, 2, 4)
            assert status == 200, content
            assert [each["data"] for each in content["outputs"]] == [[0.0, 1.0], [2.0, 3.0, 4.0, 5.0]]
        network = server.pool.models["split"].network
        assert network.untried and server.pool.costs.longest_s(network, network.first_row) < math.inf


def test_the_first_run_stands_for_the_trial_on_all_devices() -> None:
    costs = CostBook(3)
    network = costs.add("net", 1, rows=1, sizes=[1], untried=True)
    for device in range(2):
        costs.measured(network, device, [UNTRIED_S])
    first, other = costs.row_of(network, 1, [8]), costs.row_of(network, 1, [32])
    assert first == network.first_row != other
    for row in (first, other):
        assert costs.rest_s(network, row)[0][0] == UNTRIED_S and not costs.evident(row)
        assert costs.longest_s(network, row) == math.inf, "a guess bounds nothing"
    assert costs.learn(network, 0, 0, [0.4], 1, other)
    assert costs.evident(other) and not costs.evident(first)
    assert costs.latency_s[other].tolist() == [0.4, 0.4, math.inf]
    np.testing.assert_allclose(costs.latency_s[first], [0.1, 0.1, math.inf])
    assert costs.longest_s(network, first) == pytest.approx(0.1)
    costs.learn(network, 1, 0, [0.3], 1, first)
    assert costs.evident(first) and costs.latency_s[first, 1] > 0.25
    costs.measured(network, 2, [UNTRIED_S])
    assert costs.latency_s[first, 2] == costs.known_s[first, :2].min(), "it comes before a guess"
    costs.forget(network)


def test_a_device_that_is_back_keeps_what_ran_there() -> None:
    costs = CostBook(1)
    network = costs.add("net", 1, untried=True)
    costs.measured(network, 0, [UNTRIED_S])
    costs.learn(network, 0, 0, [0.02], 1, costs.row_of(network, 1, [4]))
    costs.lost(0)
    costs.measured(network, 0, [UNTRIED_S])
    assert costs.latency_s[network.first_row, 0] == pytest.approx(0.02)


class NeverTried(Desk):
    """Its network takes no made-up input."""

    def __init__(self, *grants: Any) -> None:
        super().__init__(*grants)
        self.network = self.costs.add("values", 1, untried=True)
        self.costs.measured(self.network, 0, [UNTRIED_S])

    def job(self, tenant: str) -> Job:
        job = Job(self.pairs[tenant], self.network, self.clock.now_s(), sizes=(8,))
        assert not self.admission.refuses(job)
        return job

    def ran(self, tenant: str, job: Job, took_s: float, *, answered: bool = True) -> None:
        self.clock.time_s += took_s
        self.holding.ran(tenant, job, took_s)
        if answered:
            self.costs.learn(self.network, 0, 0, [took_s], 1, job.cost_row)
        self.holding.retired(tenant, job, answered=answered)


def test_who_waits_goes_on_when_the_first_run_was_far_too_long() -> None:
    """As it was, three of four that came at once waited for ever."""

    async def wait() -> None:
        desk = NeverTried(URGENT, BRONZE)
        first, second = desk.job("bronze"), desk.job("bronze")
        second.number = first.number + 1
        assert desk.holding.check(BRONZE, first) is None
        known = desk.holding.check(BRONZE, second)
        assert known is not None and not known.done()
        desk.ran("bronze", first, 5.0)
        assert known.done()

    asyncio.run(wait())


def test_a_first_request_that_never_ran_locks_nobody_out() -> None:
    """As it was, the next one had to wait for 30 s, and twice as long each time."""

    async def wait() -> None:
        desk = NeverTried(URGENT, BRONZE)
        for number in range(4):
            job = desk.job("bronze")
            job.number = number
            assert desk.holding.check(BRONZE, job) is None
            desk.holding.retired("bronze", job, answered=False)  # taken back in the queue

    asyncio.run(wait())


def test_others_wait_for_the_first_run_and_then_run() -> None:
    async def wait() -> None:
        desk = NeverTried(URGENT, BRONZE)
        first, second = desk.job("bronze"), desk.job("bronze")
        assert desk.holding.check(BRONZE, first) is None
        known = desk.holding.check(BRONZE, second)
        assert known is not None and known is desk.holding.check(BRONZE, second) and not known.done()
        desk.ran("bronze", first, 0.001, answered=False)
        assert known.done(), "an input that fails says nothing"
        assert desk.holding.check(BRONZE, second) is None
        known = desk.holding.check(BRONZE, desk.job("bronze"))
        assert known is not None
        desk.ran("bronze", second, 0.001)
        assert known.done() and desk.holding.check(BRONZE, desk.job("bronze")) is None
        assert desk.holding.check(BRONZE, desk.job("bronze")) is None, "known, and short"

    asyncio.run(wait())


def test_one_that_does_not_come_to_run_makes_nobody_wait() -> None:
    async def enter() -> None:
        desk = NeverTried(URGENT, BRONZE)
        first = desk.job("bronze")
        assert desk.holding.check(BRONZE, first) is None
        known = desk.holding.check(BRONZE, desk.job("bronze"))
        desk.holding.retired("bronze", first, answered=False)
        assert known is not None and known.done()

    asyncio.run(enter())


def test_one_that_held_the_device_too_long_is_refused_from_then_on() -> None:
    desk = NeverTried(URGENT, BRONZE)
    job = desk.job("bronze")
    assert desk.holding.check(BRONZE, job) is None
    desk.ran("bronze", job, 0.09)
    with pytest.raises((TooLarge, Untried)):
        desk.holding.check(BRONZE, desk.job("bronze"))
    alone = NeverTried(BRONZE)
    for _ in range(3):
        job = alone.job("bronze")
        assert alone.holding.check(BRONZE, job) is None, "nobody else was promised anything"
        alone.ran("bronze", job, 5.0)


def test_one_that_is_loaded_anew_has_its_first_run_at_once() -> None:
    """All requests were refused for half a minute or longer, by what had run before somebody loaded it."""
    desk = NeverTried(URGENT, BRONZE)
    for _ in range(3):
        job = desk.job("bronze")
        assert desk.holding.check(BRONZE, job) is None
        desk.ran("bronze", job, 0.09)
        old = desk.network
        desk.network = desk.costs.add("values", 1, untried=True)
        desk.costs.measured(desk.network, 0, [UNTRIED_S])
        desk.costs.usual[desk.network.index] = old.index  # cut otherwise, it is the same
        with pytest.raises((TooLarge, Untried)):
            desk.holding.check(BRONZE, desk.job("bronze"))
        del desk.costs.usual[desk.network.index]
    assert len(desk.holding._probes) == 1, "of those that serve"


def test_one_that_was_cut_by_a_requests_input_needs_no_other_first_run() -> None:
    """What it takes had just been timed, and all requests got 429 until the next one might try."""
    desk = NeverTried(URGENT, BRONZE)
    job = desk.job("bronze")
    assert desk.holding.check(BRONZE, job) is None
    desk.ran("bronze", job, 0.09)
    before, desk.network = desk.network.index, desk.costs.add("values", 9, untried=True)
    desk.costs.usual[desk.network.index] = before
    desk.costs.measured(desk.network, 0, [0.01] * 9)
    with pytest.raises(Untried):
        desk.holding.check(BRONZE, desk.job("bronze"))
    desk.costs.timed(desk.network, 1, [8])
    assert desk.holding.check(BRONZE, desk.job("bronze")) is None
    assert desk.costs.longest_s(desk.network, desk.network.first_row) == pytest.approx(0.01)
