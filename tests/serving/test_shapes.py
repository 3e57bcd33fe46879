"""Cost by shape: an estimator against a slow obvious one, admission that heals, and long inputs beside short ones."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from eunomia.core.errors import ModelError
from eunomia.serving.dispatch.admission import FIRST_S, LONGEST_S, Admission
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.learning import LEARN, TRIAL
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.dispatch.shapes import APART, MOST
from eunomia.serving.models.entry import Entry
from eunomia.serving.protocol.errors import Expired, Hopeless
from eunomia.serving.protocol.infer import InferRequest, InputTensor
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory
from eunomia.serving.visit import Caller
from eunomia.workload.tenant import Agreement, Slo
from tests.serving.live import options
from tests.serving.made_up import examples

DEVICES, BLOCKS = 2, 3
RUNS = st.lists(
    st.tuples(
        st.integers(0, DEVICES - 1),
        st.integers(0, BLOCKS - 1),  # first block
        st.sampled_from([1, 2, 5, 8]),  # rows
        st.sampled_from([1, 16, 17, 100, 3000]),  # elements per row
        st.floats(1e-4, 10.0),
    ),
    max_size=30,
)


class Plain:
    """The same figures by going through all that ever happened: one dictionary per class, block and device."""

    def __init__(self, trial_s: list[list[float]]) -> None:
        self.trial = self.of(1, 1)
        self.time: dict[Any, float] = {}
        self.runs: dict[Any, float] = defaultdict(float)
        for device, times in enumerate(trial_s):
            for block, seconds in enumerate(times):
                self.time[self.trial, block, device] = seconds
                self.runs[self.trial, block, device] = TRIAL
        self.elements = {self.trial: 1}

    @staticmethod
    def of(rows: int, size: int) -> tuple[int, int]:
        return math.ceil(math.log2(rows)), round(4 * math.log2(size))

    def learn(self, device: int, first: int, rows: int, size: int, seconds: list[float]) -> None:
        shape = self.of(rows, size)
        self.elements.setdefault(shape, size)
        for n, s in enumerate(seconds):
            cell = shape, first + n, device
            share = max(LEARN, 1.0 / (self.runs[cell] + 1.0))
            self.time[cell] = self.time.get(cell, 0.0) * (1.0 - share) + share * s / rows
            self.runs[cell] = min(self.runs[cell] + 1.0, TRIAL)

    def relative(self, shape: tuple[int, int], block: int) -> float | None:
        """Its time over that of the trial, on the devices that have run it."""
        found = [
            self.time[shape, block, d] / self.time[self.trial, block, d]
            for d in range(DEVICES)
            if self.runs[shape, block, d]
        ]
        return sum(found) / len(found) if found else None

    def known(self, rows: int, size: int, block: int, device: int) -> float | None:
        return self.time.get((self.of(rows, size), block, device))

    def evident(self, shape: tuple[int, int]) -> bool:
        return all(self.relative(shape, block) is not None for block in range(BLOCKS))

    def estimate(self, rows: int, size: int, block: int, device: int) -> float:
        """Between the measured classes next to it; with one alone, in proportion."""
        wanted = self.of(rows, size)
        size = self.elements.get(wanted, size)
        points: dict[int, tuple[int, float]] = {}
        for shape in self.elements:
            if self.evident(shape):
                away, at = abs(shape[0] - wanted[0]), self.elements[shape]
                if at not in points or away < points[at][0]:
                    points[at] = away, self.relative(shape, block) or 0.0
        at = sorted(points)
        if len(at) == 1:
            factor = points[at[0]][1] * size / at[0]
        else:
            high = min(max(next((n for n, a in enumerate(at) if a >= size), len(at) - 1), 1), len(at) - 1)
            low = high - 1
            slope = math.log(points[at[high]][1] / points[at[low]][1]) / math.log(at[high] / at[low])
            if size < at[0] or size > at[-1]:
                slope = min(max(slope, 0.0), 2.0)
            end = high if size > at[high] else low
            factor = points[at[end]][1] * (size / at[end]) ** slope
        return factor * self.time[self.trial, block, device]


@given(RUNS, st.sampled_from([1, 2, 6]), st.sampled_from([1, 4, 16, 400, 9000]))
@examples()
def test_times_are_those_of_an_obvious_twin(runs: list[Any], rows: int, size: int) -> None:
    trial_s = [[0.001, 0.002, 0.004], [0.003, 0.001, 0.002]]
    book, plain = CostBook(DEVICES), Plain(trial_s)
    network = book.add("net", BLOCKS, rows=1, sizes=[1])
    for device in range(DEVICES):
        book.measured(network, device, trial_s[device])
    for device, first, r, s, t in runs:
        seconds = [t * (n + 1) for n in range(BLOCKS - first)]
        row = book.row_of(network, r, [s])
        book.learn(network, device, first, seconds, r, row)
        plain.learn(device, first, r, s, seconds)
        assert book.evident(row) == plain.evident(plain.of(r, s))
    row = book.row_of(network, rows, [size])
    for device in range(DEVICES):
        for block in range(BLOCKS):
            expected = plain.known(rows, size, block, device)
            if expected is None and not plain.evident(plain.of(rows, size)):
                expected = plain.estimate(rows, size, block, device)
            if expected is not None:
                assert book.latency_s[row + block, device] == pytest.approx(expected, rel=1e-6)
    before_s = book.latency_s.copy()
    book.lost(0)
    assert np.isinf(book.latency_s[row : row + BLOCKS, 0]).all()
    book.back(network, 0, [1.0] * BLOCKS)
    np.testing.assert_array_equal(book.latency_s, before_s, "a device that is back is as fast as it was")
    book.lost(0)
    book.measured(network, 0, trial_s[0])
    assert np.isfinite(book.latency_s[row : row + BLOCKS]).all()


def test_of_a_device_that_never_had_a_network_nothing_is_known() -> None:
    book = CostBook(2)
    network = book.add("net", 2, sizes=[1])
    book.measured(network, 0, [1.0, 2.0])
    assert (book.known(network, 0), book.known(network, 1)) == ([1.0, 2.0], [])
    for device in range(2):
        with pytest.raises(ModelError, match="devices must cut it alike"):
            book.back(network, device, [1.0])


def test_a_new_shape_is_read_off_a_curve_not_off_the_mean_of_others() -> None:
    book = CostBook(1)
    network = book.add("net", 1, sizes=[16])
    book.measured(network, 0, [3e-3])
    for _ in range(100):
        book.learn(network, 0, 0, [168e-3], 1, book.row_of(network, 1, [3000]))
    assert book.rest_s(network, book.row_of(network, 1, [16]))[0][0] == 3e-3
    between = book.rest_s(network, book.row_of(network, 1, [300]))[0][0]
    assert 3e-3 < between < 168e-3
    large = book.row_of(network, 1, [3000])
    means_s = book.mean_s[[network.first_row, large], 0]
    assert means_s == pytest.approx([3e-3, 168e-3]), "the digital twin has a time for each shape"


def test_what_a_new_shape_takes_at_least_is_in_proportion_to_the_largest_that_ran() -> None:
    """Pictures of 30 ms counted as 2 s, by two steps close together of which one was slow, and no cut was made."""
    book = CostBook(1)
    network = book.add("net", 1, rows=1, sizes=[1])
    book.measured(network, 0, [1e-3])
    for size, took_s in ((1000, 2e-3), (1300, 4e-3)):
        book.learn(network, 0, 0, [took_s], 1, book.row_of(network, 1, [size]))
    wanted = book.row_of(network, 1, [13_000])
    assert book.rest_s(network, wanted)[0][0] > 0.3
    assert 0.02 < book.least_s(network, wanted) < 0.05
    ran = book.row_of(network, 1, [1300])
    assert book.least_s(network, ran) == book.rest_s(network, ran)[0][0]


def test_a_few_tokens_are_not_read_off_a_large_cache_beside_them() -> None:
    """A prompt of 200 tokens had fewer elements than a cache of one position, and was let in as short."""
    book, cache = CostBook(1), 12_288
    network = book.add("net", 1, sizes=[1, cache])
    book.measured(network, 0, [1e-3])
    for past in (1, cache):
        row = book.row_of(network, 1, [200, past])
        assert book.longest_s(network, row) == pytest.approx(0.2) == book.least_s(network, row)
    prompt, step = book.row_of(network, 1, [200, 1]), book.row_of(network, 1, [1, 100 * cache])
    book.learn(network, 0, 0, [0.15], 1, prompt)
    step = book.row_of(network, 1, [1, 100 * cache])
    assert book.rest_s(network, step)[0][0] == pytest.approx(0.1), "as of the trial, which is most like it"
    for n in range(MOST):
        book.row_of(network, 1, [1, 2**n])
    rows = {book.row_of(network, 1, [tokens, cache + 1]) for tokens in (2, 200)}
    assert len(rows) == 2, "beyond so many classes, too"


def test_classes_of_a_network_are_bounded() -> None:
    book = CostBook(1)
    network = book.add("net", 1, sizes=[1, 1])
    book.measured(network, 0, [1.0])
    rows = {book.row_of(network, 1, [2**a, 2**b]) for a in range(40) for b in range(40)}
    assert len(rows) <= MOST + APART + 40 + 1


def test_no_tenant_takes_all_classes_from_the_others() -> None:
    gold, bronze = 1, 2
    book = CostBook(1)
    network = book.add("net", 1, sizes=[1])
    book.measured(network, 0, [1e-3])
    made = {book.row_of(network, 1, [2**n], bronze) for n in range(60)}
    made |= {book.row_of(network, 2, [2**n], bronze) for n in range(60)}
    assert len(made) >= MOST // 2 and len(book.latency_s) < 3 * MOST
    gold_rows = [book.row_of(network, 1, [3 * 4**n], gold) for n in range(1, 6)]
    assert len(set(gold_rows)) == 5 and not set(gold_rows) & made, "gold's shapes have times of their own"


class Desk:
    """Admission before a dispatcher whose device is a note: a request takes what ``took`` says."""

    def __init__(self) -> None:
        self.clock, costs = ManualClock(), CostBook(1)
        self.dispatcher = Dispatcher(
            self.clock, self, costs, 1, lambda view: [view.assign(0, 0)], DispatchOptions()  # type: ignore[arg-type]
        )  # fmt: skip
        self.network = costs.add("net", 1, sizes=[16])
        costs.measured(self.network, 0, [1e-3])
        self.pair = self.dispatcher.add_pair(Agreement("gold", "net", Slo(0.9)))
        self.admission = Admission(self.dispatcher)

    def run(self, *order: Any) -> None:
        """The device begins."""

    def ask(self, size: int, deadline_s: float, took_s: float) -> str:
        """One request from its arrival to its answer."""
        now_s = self.clock.now_s()
        job = Job(self.pair, self.network, now_s, now_s + deadline_s, sizes=(size,))
        if self.admission.refuses(job):
            return "refused"
        self.dispatcher.arrive(job)
        self.clock.time_s += took_s
        self.dispatcher.done(0, 1)
        for pair in self.admission.retired(job, answered=True):
            self.dispatcher.missed(pair)
        if self.dispatcher.costs.learn(self.network, 0, 0, [took_s], 1, job.cost_row):
            self.dispatcher.learnt(job.cost_row)
        return "probe" if job.probe else "served"


def test_a_shape_that_never_ran_is_tried_and_then_refused_on_its_own_evidence() -> None:
    desk = Desk()
    assert desk.ask(3000, 0.02, 0.5) == "served"
    assert desk.ask(3000, 0.02, 0.5) == "refused"
    assert desk.ask(16, 0.02, 1e-3) == "served"


def test_a_class_that_was_slow_once_heals_and_its_wrong_refusals_are_misses() -> None:
    desk = Desk()
    indicator = desk.dispatcher.indicators[desk.pair]
    assert desk.ask(64, 0.02, 2.0) == "served"  # an accident
    assert [desk.ask(64, 0.02, 1e-3) for _ in range(3)] == ["refused"] * 3
    count = indicator.count
    desk.clock.time_s += FIRST_S
    assert desk.ask(64, 0.02, 1e-3) == "probe"
    assert indicator.count == count + 3 and indicator.sli == 0.0
    asked = 0
    while desk.ask(64, 0.02, 1e-3) != "served":
        desk.clock.time_s += FIRST_S
        asked += 1
    assert asked < 5


def test_probes_that_prove_refusals_right_become_rare() -> None:
    desk = Desk()
    indicator = desk.dispatcher.indicators[desk.pair]
    desk.ask(64, 0.02, 1.0)
    count, probed_s = indicator.count, []
    for _ in range(2000):
        desk.clock.time_s += 0.1
        if desk.ask(64, 0.02, 1.0) == "probe":
            probed_s.append(desk.clock.time_s)
    assert indicator.count == count
    gaps_s = np.diff(probed_s)
    assert (gaps_s[1:] >= gaps_s[:-1] - 0.2).all() and LONGEST_S <= gaps_s[-1] < LONGEST_S + 1.5
    assert not desk.admission.refuses(Job(0, desk.network, 0.0, 0.01, sizes=(16,)))


def attention(path: Path, width: int = 32) -> None:
    """x [1, length, width] -> softmax(x w x^T) x, a cost that grows with the square of the length."""
    weight = numpy_helper.from_array(np.eye(width, dtype=np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "x"], ["y"]),
    ]
    shape = ["batch", "length", width]
    graph = helper.make_graph(
        nodes, "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], [weight],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def longest_row(server: Server) -> int:
    """Where the times of the class begin that takes longest."""
    return int(server.pool.costs.latency_s[:, 0].argmax())


@pytest.mark.parametrize("late", ["last", "drop"])
def test_long_inputs_of_one_tenant_do_not_lock_out_short_ones_of_another(tmp_path: Path, late: str) -> None:
    attention(tmp_path / "attention.onnx")

    async def main() -> None:
        grants = [Grant(name, promises={"*": Promise(60.0, Slo(0.9))}) for name in ("gold", "bronze")]
        chosen = replace(
            options(tmp_path), networks=[Entry("attention", tmp_path / "attention.onnx")], models_dir=None,
            directory=StaticDirectory(grants), anonymous=True, dispatch=DispatchOptions(ahead_s=3e-3, late=late),
        )  # fmt: skip
        async with Server(chosen) as server:
            server.guard.limit_s = math.inf
            service = server.service

            async def ask(tenant: str, length: int, slo_s: float | None = None) -> None:
                x = np.ones((1, length, 32), np.float32)
                parameters = {} if slo_s is None else {"timeout": int(slo_s * 1e6)}
                tensor = InputTensor("x", "FP32", x.shape, x)
                request = InferRequest("attention", "", "", (tensor,), (), False, parameters)
                await service.infer(request, Caller(tenant_id=tenant))

            for _ in range(25):
                await ask("bronze", 1500)
            network = server.pool.models["attention"].network
            long_s = server.pool.costs.rest_s(network, longest_row(server))[0][0]
            for _ in range(40):
                with suppress(Expired):  # it may have to wait on a busy machine; but it is never refused
                    await ask("gold", 16, long_s / 3.0)
            with pytest.raises(
                Hopeless, match="the network alone takes.*the timeout is .*: set a longer one, or send less"
            ):
                for _ in range(3):  # one of them may be a probe
                    with suppress(Expired):
                        await ask("bronze", 1500, long_s / 10.0)

    asyncio.run(main())
