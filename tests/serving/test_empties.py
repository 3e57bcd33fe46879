"""Inputs that are empty run where a trial of theirs ran, in a process that may die of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

from eunomia.core.errors import ModelError
from eunomia.serving.devices import empties
from eunomia.serving.devices.climbs import Known
from eunomia.serving.devices.cutting import Away
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.empties import LATE_S, MOST, Empties, form_of
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.entry import Entry
from eunomia.serving.protocol.errors import BadRequest, Unavailable
from eunomia.serving.server import Server
from tests.patience import until_async
from tests.serving.live import GOLD, SILVER, ask, running

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
EINSUM = "g (float[b, q, d] x, float[b, k, d] y) => (float[b, q, k] z) "
NETWORKS = {
    "dies": EINSUM + '{ z = Einsum<equation = "bqd,bkd->bqk">(x, y) }',
    "past": "g (float[b, n] x, float[b, m] past) => (float[b, k] y) { y = Concat<axis = 1>(past, x) }",
    "never": "g (float[b, n] x, float[b, m] past) => (float[b, k] y) { y = Concat<axis = 1>(past, x) }",
    "sum": "g (float[b, n] x, float[b, n] y) => (float[b, n] z) { z = Add (x, y) }",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("empty")
    entries = []
    for name, text in NETWORKS.items():
        onnx.save(parser.parse_model(HEAD + text), folder / f"{name}.onnx")
        entries.append(Entry(name, folder / f"{name}.onnx", empty=False if name == "never" else None))
    with running(folder, networks=entries, models_dir=None) as found:
        yield found


def infer(server: Server, name: str, key: str = GOLD, **shapes: list[int]) -> tuple[int, Any]:
    inputs = [
        {"name": one, "datatype": "FP32", "shape": shape, "data": np.arange(np.prod(shape)).tolist()}
        for one, shape in shapes.items()
    ]
    return ask(server, "POST", f"/v2/models/{name}/infer", key, {"inputs": inputs})


def test_a_decoder_begins_with_an_empty_past_though_nobody_said_so(server: Server, tmp_path: Path) -> None:
    """As it was, the first step of a language model was refused, with a file to write."""
    (device,) = server.pool.devices
    before = device.pid
    status, content = infer(server, "past", x=[2, 3], past=[2, 0])
    assert status == 200, content
    assert content["outputs"][0]["data"] == np.arange(6).tolist()
    assert infer(server, "past", SILVER, x=[1, 5], past=[1, 0])[0] == 200
    assert device.pid == before
    onnx.save(parser.parse_model(HEAD + NETWORKS["past"]), tmp_path / "past.onnx")
    feed = {"x": np.zeros((1, 0), np.float32), "past": np.zeros((1, 0), np.float32)}
    (wanted,) = ort.InferenceSession(str(tmp_path / "past.onnx")).run(None, feed)
    status, content = infer(server, "past", x=[1, 0], past=[1, 0])
    assert (status, content["outputs"][0]["shape"]) == (200, list(np.shape(wanted))), content


def test_what_the_runtime_dies_of_is_refused_and_kills_no_device(server: Server) -> None:
    """Its Einsum ends the process; the device that all tenants share has not seen such an input."""
    (device,) = server.pool.devices
    before = device.pid
    assert infer(server, "dies", x=[1, 1, 0], y=[1, 1, 0])[0] == 200, "of this it does not"
    for _ in range(2):
        status, content = infer(server, "dies", x=[1, 2, 0], y=[1, 3, 0])
        assert status == 400, content
        assert "'x' has shape [1, 2, 0]" in content["error"] and "ended with signal" in content["error"]
        assert "empty = true in the [[network]] of 'dies' allows" in content["error"]
    assert infer(server, "dies", x=[1, 2, 2], y=[1, 3, 2])[0] == 200
    assert device.pid == before


def test_sizes_that_do_not_fit_together_are_refused_by_the_trials_words(server: Server) -> None:
    """Nothing is held against other sizes along the same axes."""
    status, content = infer(server, "sum", SILVER, x=[1, 0], y=[1, 3])
    assert status == 400 and "a trial with such sizes failed" in content["error"], content
    assert infer(server, "sum", GOLD, x=[1, 0], y=[1, 0])[0] == 200


def test_nothing_is_tried_where_the_owner_says_no(server: Server) -> None:
    status, content = infer(server, "never", x=[2, 3], past=[2, 0])
    assert status == 400 and "it is empty, which empty = true in the [[network]]" in content["error"]


class Tried:
    """``Empties`` on a clock that tests move, with trials that end when they say so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str = "cpu") -> None:
        self.now_s, self.orders = 0.0, list[Any]()
        self.error: ModelError | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()
        models = {"net": SimpleNamespace(key="content-0.002-x")}
        loading, clock = (
            SimpleNamespace(models=models, target_s=0.002),
            SimpleNamespace(now_s=lambda: self.now_s),
        )
        self.empties = Empties(loading, clock, "cache", [DeviceSpec("a", kind)])  # type: ignore[arg-type]
        monkeypatch.setattr(empties, "try_empty", self._try)

    async def _try(self, order: Any) -> None:
        self.orders.append(order)
        await self.go_on.wait()
        if self.error is not None:
            raise self.error

    def job(self, **shapes: tuple[int, ...]) -> Job:
        given = tuple(sorted(shapes.items()))
        return Job(0, Network(0, "net", 0, 1), 0.0, shapes=given, hollow="its [[network]]")

    def check(self, tenant: str, **shapes: tuple[int, ...]) -> Known | None:
        return self.empties.check(tenant, self.job(**shapes))

    async def found(self, tenant: str, **shapes: tuple[int, ...]) -> Known | None:
        """What is said once a trial, if there is one, has ended."""
        if (known := self.check(tenant, **shapes)) is None:
            return None
        await until_async(known.done)
        return self.check(tenant, **shapes)


def test_one_trial_is_for_all_who_wait_and_for_all_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        tried = Tried(monkeypatch)
        tried.go_on.clear()
        first, again = tried.check("gold", past=(1, 0)), tried.check("gold", past=(1, 0))
        other = tried.check("silver", past=(2, 0))
        assert first is not None and first is again and other is not first and other is not None
        await until_async(lambda: tried.orders)
        tried.go_on.set()
        await until_async(lambda: first.done())
        assert tried.check("gold", past=(1, 0)) is None
        await until_async(lambda: other.done())
        assert tried.check("silver", past=(7, 0)) is None, "more are as good as two"
        assert len(tried.orders) == 2, "one is another matter"

    asyncio.run(steps())


def test_what_failed_is_one_tenants_and_is_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        tried = Tried(monkeypatch)
        tried.error = ModelError("it does not fit")
        with pytest.raises(
            BadRequest, match=r"'past' has shape \[1, 0\].*it does not fit.*its \[\[network\]\]"
        ):
            await tried.found("bronze", past=(1, 0))
        tried.error = None
        with pytest.raises(BadRequest):
            tried.check("bronze", past=(1, 0))
        assert await tried.found("gold", past=(1, 0)) is None, "another tenant has tries of its own"
        assert tried.check("bronze", past=(1, 0)) is None, "and what ran is everybody's"

    asyncio.run(steps())


def test_tries_of_one_tenant_are_further_and_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        tried = Tried(monkeypatch)
        tried.error = ModelError("no")
        for n in range(6):
            with pytest.raises(BadRequest):
                await tried.found("bronze", past=(n + 2, 0))
            tried.now_s += 1000.0
        with pytest.raises(BadRequest):
            await tried.found("bronze", past=(100, 0))
        with pytest.raises(BadRequest):
            tried.check("bronze", past=(100, 0))
        with pytest.raises(Unavailable, match="after a pause only"):
            tried.check("bronze", past=(101, 0))
        tried.now_s += 3.0 * LATE_S
        waits = tried.check("bronze", past=(101, 0))
        assert waits is not None and not waits.done() and len(tried.orders) == 7, (
            "the rest of a pause can be waited for"
        )

    asyncio.run(steps())


def test_a_trial_that_could_not_be_made_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        tried = Tried(monkeypatch)
        tried.error = Away("the cache does not hold it any more")
        waits = await tried.found("gold", past=(1, 0))
        assert waits is not None and not waits.done()
        tried.now_s, tried.error = 1000.0, None
        waits.set_result(None)
        assert await tried.found("gold", past=(1, 0)) is None

    asyncio.run(steps())


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        tried = Tried(monkeypatch)
        for n in range(MOST + 2):
            tried.now_s += 10_000.0
            assert await tried.found("gold", **{f"x{n}": (1, 0)}) is None
        tried.now_s += 10_000.0
        assert tried.check("gold", x3=(1, 0)) is None and tried.check("gold", x0=(1, 0)) is not None

    asyncio.run(steps())


def test_sizes_have_a_form_in_common_where_kernels_do_the_same() -> None:
    """ONNX Runtime's Einsum runs [1, 1, 0], and dies of [1, 2, 0]."""
    assert form_of((("a", (1, 0, 7)), ("b", (3,)))) == (("a", (1, 0, 2)), ("b", (2,)))


def test_what_a_device_dies_of_all_the_same_is_refused_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        tried = Tried(monkeypatch)
        assert await tried.found("gold", past=(3, 0)) is None
        tried.empties.died(tried.job(past=(4, 0)))
        for tenant in ("gold", "silver"):
            with pytest.raises(BadRequest, match="a device died of such an input"):
                tried.check(tenant, past=(3, 0))

    asyncio.run(steps())


def test_where_a_device_is_no_processor_none_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache holds no blocks of its networks, and its kernels are others."""
    tried = Tried(monkeypatch, "cuda")
    with pytest.raises(BadRequest, match="no processors; .* empty = true in its"):
        tried.check("gold", past=(1, 0))
    assert not tried.orders
