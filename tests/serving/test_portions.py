"""A batch that is too long for its device runs a few rows at a time, and is one request all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.serving.devices import portions
from eunomia.serving.devices.messages import array_at, place
from eunomia.serving.dispatch import look_ahead
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.entry import Entry
from eunomia.serving.observe.retired import retired_from
from eunomia.serving.protocol.errors import Cancelled, Refused, TooLarge, TooLong, Unavailable
from tests.patience import until_async
from tests.serving.live import GOLD, ask, running
from tests.serving.test_holding import BRONZE, Desk
from tests.serving.test_holding import GOLD as PROMISED
from tests.serving.test_two_devices import Bench

ROWS, WIDTH = 5, 4


class Part(Bench):
    """One request of ``ROWS`` rows, two of which run at a time; a row's answer is twice the row."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.input = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
        self.one = Job(self.pair, self.network, 0.0, 100.0, batch=2, later=3, group="any")
        self.pool.costs.by_row.add(self.network.index)
        self.answer = self.pool.submit(self.one, {"x": self.input})
        self.answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def order(self) -> tuple[int, dict[str, Any]]:
        """Which device was told what, last."""
        return [(n, message) for n, message in self.told if message["kind"] == "run"][-1]

    def rows(self) -> list[list[float]]:
        """What it is to run."""
        ((tensor,),) = self.order()[1]["inputs"]
        return array_at(self.pool.answers._memory, tensor).tolist()  # type: ignore[no-any-return]

    def run(self, width: int = WIDTH, **more: Any) -> None:
        """The last order is carried out."""
        device, order = self.order()
        x = np.array(self.rows(), np.float32)
        y = np.zeros((len(x), width), np.float32)
        y[:, :WIDTH] = 2.0 * x[:, :width]
        tensors, end = place([("y", y)], order["room"][0])
        array_at(self.pool.answers._memory, tensors[0])[...] = y
        found = {
            "next": 3,
            "skipped": [],
            "tensors": tensors,
            "span_s": (0.0, 3.0),
            "ends_s": [0.0, 1.0, 2.0, 3.0],
        }
        self.pool.execution.on_message(device, {"kind": "done", "ticket": order["ticket"], **found, **more})

    def empty(self) -> bool:
        """Nothing is held, and nothing waits."""
        return self.pool.arena.free_bytes == self.free and not self.pool.busy


def test_all_rows_are_answered_together_in_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        part, seen = Part(tmp_path), []
        assert part.pool.dispatcher.calm._slack_s.at(0.0) == 100.0 - 3.0 * ROWS, "all rows take time"
        part.pool.answers.on_retired = lambda job, outcome: seen.append(
            retired_from(job, "gold", "net", outcome, 0.0)
        )
        for first, last in ((0, 2), (2, 4), (4, 5)):
            assert part.rows() == part.input[first:last].tolist() and not part.answer.done()
            assert part.one.later == ROWS - last
            assert part.pool.dispatcher.rest_s(part.one) == 3.0 * (ROWS - first)
            part.run()
            part.pool.dispatcher.clock.time_s += 1.0  # type: ignore[attr-defined]
        np.testing.assert_array_equal((await part.answer)["y"], 2.0 * part.input)
        assert [(one.batch, one.outcome, one.size) for one in seen] == [(ROWS, "hit", (0, 3, 4))], "about"
        assert part.one.attained_s == 9.0 and part.empty()
        assert part.one.start_s == 0.0, "of its first rows: until then it waited"
        assert (part.one.work_s, part.one.runs) == (9.0, 3), "of all rows, as in its recording"
        assert part.one.expected_s == 15.0, "of one second a block and row"

    asyncio.run(main())


def test_its_next_rows_are_in_sight_of_the_policy_before_the_last_have_run(tmp_path: Path) -> None:
    """Whoever waited was ordered ahead of them, however late it was due, and ran between any two portions."""

    async def main() -> None:
        part = Part(tmp_path)
        late = Job(part.pair, part.network, 0.0, 1000.0)
        late.payload = part.one.payload
        part.pool.dispatcher.wait(late)
        claim = look_ahead.choice(part.pool.dispatcher, part.order()[0], part.network.blocks, 3.0)
        assert claim is not None and claim.job is part.one
        assert (part.one.through, part.one.batch, part.one.later, part.one.row) == (0, 2, 3, -1)
        part.one.later = 0
        claim = look_ahead.choice(part.pool.dispatcher, part.order()[0], part.network.blocks, 3.0)
        assert claim is not None and claim.job is late

    asyncio.run(main())


def test_what_an_estimate_said_is_no_sign_of_a_busy_machine(tmp_path: Path) -> None:
    """The page called a machine busy where a size ran for the first time, as it had been thought shorter."""

    async def main() -> None:
        part = Part(tmp_path)
        part.pool.costs._evident.clear()
        for _ in range(3):
            part.run()
            part.pool.costs._evident.add(part.network.first_row)
        assert retired_from(part.one, "gold", "net", "hit", 0.0).expected_s == 0.0

    asyncio.run(main())


def test_large_answers_are_gathered_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "AT_ONCE_IN_BYTES", 0)
    monkeypatch.setattr("eunomia.serving.devices.answers.AT_ONCE_BYTES", 0)

    async def main() -> None:
        part = Part(tmp_path)
        part.one.sizes = (WIDTH,)
        for _ in range(3):
            orders = len(part.told)
            part.run()
            assert part.pool.busy
            await until_async(lambda before=orders: len(part.told) > before or part.answer.done())  # type: ignore[misc]
        np.testing.assert_array_equal((await part.answer)["y"], 2.0 * part.input)
        await until_async(part.empty)
        whole = part.pool.costs.row_of(part.network, ROWS, (WIDTH,), part.pair)
        assert part.pool.answers.sizes == {(part.pair, whole): 4 * ROWS * WIDTH}, "few rows are small"

    asyncio.run(main())


def test_a_fault_between_two_portions_is_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "AT_ONCE_IN_BYTES", 0)

    def fault(job: object) -> None:
        raise RuntimeError("made up")

    async def main() -> None:
        part = Part(tmp_path)
        monkeypatch.setattr(part.pool.dispatcher, "wait_again", fault)
        part.run()
        with pytest.raises(Unavailable):
            await part.answer
        await until_async(part.empty)

    asyncio.run(main())


@pytest.mark.parametrize("beside", [False, True])
def test_between_two_portions_it_may_end(
    tmp_path: Path, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client leaves, the server stops, there is no room for its answer, or its rows do not fit each other."""
    monkeypatch.setattr(portions, "AT_ONCE_IN_BYTES", -1 if beside else 2**20)

    async def ended(why: type[Exception]) -> None:
        with pytest.raises(why):
            await part.answer
        assert part.empty()

    async def gone() -> None:
        part.run()
        part.pool.cancel(part.one)
        if not beside:
            part.run(next=1, tensors=None)  # the device stops at the next boundary
        await ended(Cancelled)

    async def stopping() -> None:
        part.pool.execution.portions.closed = True
        part.run()
        await ended(Unavailable)

    async def full() -> None:
        rest = part.pool.arena.allocate(part.pool.arena.most_bytes // 2)
        rest = part.pool.arena.allocate(part.pool.arena.free_bytes - 2**16), rest
        part.pool.answers.room_for = lambda job, size: _raise(Refused("full"))  # type: ignore[method-assign]
        part.run()
        for slot in rest:
            part.pool.arena.release(slot)
        await ended(Refused)

    async def unlike() -> None:
        part.run()
        await until_async(lambda: part.rows() == part.input[2:4].tolist())
        part.run(width=3)
        await ended(TooLong)
        assert part.network.index in part.pool.costs.by_row, "another input may be answered alike"

    async def no_rows() -> None:
        slot = part.pool.arena.allocate(1)
        tensors, _ = place([("y", np.zeros((3, WIDTH), np.float32))], slot.offset)
        part.run(tensors=tensors)
        part.pool.arena.release(slot)
        await ended(TooLong)
        assert part.network.index not in part.pool.costs.by_row, "two rows were answered by three"

    for story in (gone, stopping, full, unlike, no_rows):

        async def main(story: Any = story) -> None:
            nonlocal part
            part = Part(tmp_path)
            await story()

        part: Part
        asyncio.run(main())


def _raise(error: Exception) -> Any:
    raise error


def test_a_device_that_dies_costs_the_rows_that_ran_there_alone(tmp_path: Path) -> None:
    async def main() -> None:
        part = Part(tmp_path)
        part.run()
        assert part.rows() == part.input[2:4].tolist()
        device = part.order()[0]
        part.pool.dispatcher.lost(device)
        part.pool.execution.queues[device].clear()
        part.pool.recovery.run_again(part.one, suspect=True)
        part.pool.dispatcher.decide()
        assert part.order()[0] != device and part.rows() == part.input[2:4].tolist()
        part.run()
        part.run()
        np.testing.assert_array_equal((await part.answer)["y"], 2.0 * part.input)

    asyncio.run(main())


def test_as_many_rows_run_at_a_time_as_are_known_to_be_short() -> None:
    """A batch was refused of which each row would have been short enough."""
    desk = Desk(PROMISED, BRONZE, quadratic=False)

    def asked(rows: int, sizes: int = 1000, **changes: Any) -> Job:
        job = Job(
            desk.pairs["bronze"], desk.network, desk.clock.now_s(), batch=rows, sizes=(sizes,), **changes
        )
        desk.dispatcher.classify(job)
        assert desk.holding.check(BRONZE, job) is None
        return job

    desk.costs.learn(desk.network, 0, 0, [0.006], 1, desk.costs.row_of(desk.network, 1, (1000,)))
    desk.holding.explore = lambda tenant, job, bound_s: True
    with pytest.raises(TooLarge):
        asked(16)
    desk.costs.by_row.add(desk.network.index)
    assert [(job.batch, job.later) for job in map(asked, (3, 16, 17, 5))] == [
        (3, 0),
        (4, 12),
        (3, 14),
        (3, 2),
    ]
    with pytest.raises(TooLarge):
        asked(16, 8000)  # of which not even one was tried
    assert not asked(16, probe=True).probe, "it shows nothing of all rows together"
    even, one_for_all = [(("b", (rows, 4)), ("x", (16, 4))) for rows in (16, 1)]
    assert asked(16, shapes=even).batch == 4
    with pytest.raises(TooLarge):
        asked(16, shapes=one_for_all)  # its rows would be read where other requests' tensors lie
    job = Job(desk.pairs["bronze"], desk.network, 0.0, batch=16, sizes=(1000,))
    desk.dispatcher.classify(job)
    desk.costs.learn(desk.network, 0, 0, [0.096], 16, job.cost_row)
    desk.holding.foresee(BRONZE, job)


def test_a_batch_that_was_refused_is_served_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One operator takes 60 times as long with 60 rows: no cut makes it shorter."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.setattr("eunomia.serving.tenants.holding.LEAST_S", 0.0)
    monkeypatch.setattr("eunomia.serving.tenants.holding.USUAL", 0.0)
    wide, rows, path = 512, 20, tmp_path / "wide.onnx"
    constants = {"w": np.eye(wide, dtype=np.float32), "axes": np.array([1]), "each": np.array([1, 64, 1])}
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["one"]),
        helper.make_node("Expand", ["one", "each"], ["many"]),
        helper.make_node("MatMul", ["many", "w"], ["product"]),
        helper.make_node("ReduceMean", ["product"], ["y"], axes=[1], keepdims=0),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", wide]) for name in "xy"]
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "wide", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    x = np.random.default_rng(0).random((rows, wide), np.float32)
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, wide], "data": x.ravel().tolist()}]}
    ran = list[int]()
    ended = portions.Portions.ended

    def seen(self: Any, job: Job, *where: Any) -> None:
        ran.append(job.batch)
        ended(self, job, *where)

    monkeypatch.setattr(portions.Portions, "ended", seen)
    with running(tmp_path, networks=[Entry("wide", path)]) as server:
        single_s = server.pool.costs.longest_s(server.pool.models["wide"].network, 0)
        server.service.holding.most_s = 8.0 * single_s
        status, content = ask(server, "POST", "/v2/models/wide/infer", GOLD, body)
        assert status == 200, content
        stats = ask(server, "GET", "/v2/models/wide/stats", GOLD)[1]["model_stats"][0]
        took_us = stats["inference_stats"]["compute_infer"]["ns"] / 1e3
        hurried = {**body, "parameters": {"timeout": round(took_us / 4.0)}}
        status, refused = ask(server, "POST", "/v2/models/wide/infer", GOLD, hurried)
        assert (status, refused["reason"]) == (503, "hopeless"), "its rows are known to take longer"
    np.testing.assert_allclose(content["outputs"][0]["data"], x.ravel(), rtol=1e-4)
    assert sum(ran) == rows and len(ran) > 1
    assert (stats["inference_count"], stats["inference_stats"]["success"]["count"]) == (rows, 1)
