"""A network with free sizes is cut anew for the sizes that its clients send, a few times, and where that helps."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eunomia.config.beside import beside_from
from eunomia.config.server import load_server
from eunomia.core.errors import ConfigError, ModelError
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.devices.by_size import AGAIN_S, HALVINGS, LATE_S, MOST, PAUSE_S, BySize, in_toml
from eunomia.serving.devices.cutting import Away
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.server import Server
from eunomia.serving.tenants.holding import LEAST_S
from tests.patience import until
from tests.serving.live import ADMIN, GOLD, ask, running

LAYERS, LONG = 40, 1024
BLOCK_S = 0.02  # between a layer's time and all of them, with some room to both sides


def deep(path: Path) -> None:
    """``LAYERS`` products of one matrix: with a length of 1 they take nothing, with ``LONG`` each some milliseconds."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.eye(256, dtype=np.float32) * 0.5, "w")
    nodes = [helper.make_node("MatMul", ["w", f"x{n}"], [f"x{n + 1}"]) for n in range(LAYERS)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 256, "t"]) for name in ("x0", f"x{LAYERS}")
    ]
    graph = helper.make_graph(nodes, "deep", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))


def sent(server: Server, length: int) -> tuple[int, str]:
    """Status and reason of a request of that length."""
    size = {"binary_data_size": 1024 * length}
    body = {"inputs": [{"name": "x0", "datatype": "FP32", "shape": [1, 256, length], "parameters": size}]}
    line = HTTPConnection("127.0.0.1", server.http_port)
    head = json.dumps(
        {**body, "outputs": [{"name": f"x{LAYERS}", "parameters": {"binary_data": True}}]}
    ).encode()
    raw = np.ones(256 * length, np.float32).tobytes()
    headers = {"Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(head))}
    line.request("POST", "/v2/models/deep/infer", head + raw, headers)
    answer = line.getresponse()
    content = answer.read()
    line.close()
    return answer.status, "" if answer.status == 200 else json.loads(content)["error"]


def test_inputs_of_a_size_that_was_refused_wait_and_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """48 of 60 pictures of strange widths were refused for good, beside a tenant that was promised 50 ms."""
    deep(tmp_path / "deep.onnx")
    with (
        caplog.at_level(logging.WARNING),
        running(tmp_path, max_block_s=BLOCK_S, arena_bytes=64 * 1024**2) as server,
        ThreadPoolExecutor(4) as clients,
    ):
        assert ask(server, "POST", "/v2/repository/models/deep/load", ADMIN, {})[0] == 200
        old = server.pool.models["deep"].network
        assert old.blocks < LAYERS / 4
        assert sent(server, 1)[0] == 200
        first = clients.submit(sent, server, LONG)  # by which it is cut: the others come meanwhile
        until(lambda: server.pool.by_size._ended is not None or first.done())
        together = clients.map(partial(sent, server), (LONG, LONG - 1, LONG // 2))
        assert [first.result(), *together] == [(200, "")] * 4, "nobody has to ask again"
        new = server.pool.models["deep"].network
        assert new.blocks > old.blocks
        assert [sent(server, length)[0] for length in (1, 7, LONG // 2)] == [200] * 3
        job: Any = SimpleNamespace(network=new)
        assert server.service.holding._least(job, 0.0) == LEAST_S, "what clients send moves no bound"
        until(lambda: old.index not in server.pool.loading._labels)
        assert server.pool.costs.usual == {new.index: old.index} and not server.pool.models["deep"].given
        assert any(
            text.startswith("'deep' is cut anew for inputs as its clients") for text in caplog.messages
        )
        cuts = len(list((tmp_path / "cache").glob("*.blocks")))
        assert ask(server, "POST", "/v2/repository/models/deep/unload", ADMIN, {})[0] == 200
        until(lambda: len(list((tmp_path / "cache").glob("*.blocks"))) == cuts - 1)  # what clients chose
    job = Job(0, new, 0.0, cost_row=new.first_row, group=("deep", (("x0", (256, LONG)),)))
    with pytest.raises(Unavailable, match="is stopping"):  # it was 413, or a cut that nobody made
        server.pool.explore("gold", job, BLOCK_S)


def test_a_file_that_was_replaced_is_not_served_by_a_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next cut took what lay there: answers had another output, and every request failed until a load."""
    import onnx

    monkeypatch.setattr("eunomia.serving.devices.by_size.HALVINGS", 0)
    deep(tmp_path / "deep.onnx")
    with running(tmp_path, max_block_s=BLOCK_S, arena_bytes=64 * 1024**2) as server:
        assert ask(server, "POST", "/v2/repository/models/deep/load", ADMIN, {})[0] == 200
        model = onnx.load(str(tmp_path / "deep.onnx"))
        model.graph.node[-1].output[0] = model.graph.output[0].name = "other"
        onnx.save(model, str(tmp_path / "deep.onnx"))
        with caplog.at_level(logging.WARNING):
            assert sent(server, LONG)[0] == 413
        assert any("has been replaced since it was loaded; load it" in text for text in caplog.messages)
        assert sent(server, 1)[0] == 200


class Cut:
    """A network of one free axis, and what its loads end with: None, or an error."""

    def __init__(self, *ends: Exception | None, given: bool = False, run_s: float = 0.1) -> None:
        network = Network(0, "net", 0, 1)
        ports = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}], "outputs": []}
        self.model: Any = SimpleNamespace(
            network=network, label="net#1", key="abc-0.005", shapes={}, ports=ports, given=given
        )
        self.ends, self.loads, self.now_s = list(ends), list[list[int]](), 0.0
        self.takes_s, self.row_s = 0.0, math.inf
        self.given, self.run_s = list[dict[str, list[int]]](), run_s
        self.loading: Any = SimpleNamespace(models={"net": self.model})
        device: Any = SimpleNamespace(spec=SimpleNamespace(kind="cpu"), place=SimpleNamespace(far=False))
        self.usual = dict[int, int]()
        costs = self.costs = SimpleNamespace(
            least_s=lambda network, row: self.run_s, usual=self.usual, by_row=set(), evident=lambda row: row == 1,
            row_of=lambda network, rows, sizes, pair: int(rows == 1), longest_s=lambda network, row: self.row_s,
        )  # fmt: skip
        clock: Any = SimpleNamespace(now_s=lambda: self.now_s)
        self.by_size = BySize([device], self.loading, costs, clock, self.load)

    async def load(self, model: Any, shapes: dict[str, list[int]], most_s: float) -> None:
        await asyncio.sleep(0)
        self.loads.append(shapes["x"])
        self.given.append(shapes)
        self.now_s += self.takes_s
        if (error := self.ends.pop(0)) is not None:
            raise error
        before = self.model.network.index
        self.placed(shapes)
        self.usual[self.model.network.index] = self.usual.get(before, before)

    def placed(self, shapes: dict[str, list[int]]) -> None:
        """In the network's place is another one."""
        index = self.model.network.index + 1
        self.model = SimpleNamespace(**{**vars(self.model), "label": f"net#{index + 1}", "shapes": shapes})
        self.model.network = replace(self.model.network, index=index, first_row=10 * index)
        self.loading.models["net"] = self.model

    def job(self, length: int, rows: int = 1) -> Any:
        return Job(0, self.model.network, 0.0, batch=rows, shapes=(("x", (rows, length)),), cost_row=0)

    def asked(self, length: int, tenant: str = "gold", rows: int = 1) -> bool:
        """Whether a request of that length has to wait for a cut, which is then made."""

        async def waited() -> bool:
            ended = self.by_size.wanted(tenant, self.job(length, rows), 0.025)
            return ended is not None and await ended is None

        return asyncio.run(waited())


def test_all_that_come_meanwhile_wait_for_the_same_cut_and_follow_it() -> None:
    async def waited() -> None:
        cut = Cut(None)
        first, other = cut.job(400), cut.job(7)
        ended = cut.by_size.wanted("gold", first, 0.025)
        cut.run_s = 2.0  # so it seems, by the times before the cut: such a one was refused
        assert ended is not None and cut.by_size.wanted("bronze", other, 0.025) is ended
        await ended
        cut.by_size.follow(other)
        assert len(cut.loads) == 1 and other.network is cut.model.network and other.cost_row == 10

    asyncio.run(waited())


def test_who_waited_for_long_follows_every_cut_and_nothing_that_somebody_loaded() -> None:
    """It followed the last cut alone, also where that was unloaded since: no device knew such a network."""
    cut = Cut(None, None)
    long_ago, loaded = cut.job(7), cut.job(7)
    assert cut.asked(100)
    cut.now_s = 1e6
    assert cut.asked(400)
    cut.by_size.follow(long_ago)
    assert long_ago.network is cut.model.network and long_ago.cost_row == 20
    old = loaded.network
    cut.placed({})
    cut.by_size.follow(loaded)
    del cut.loading.models["net"]
    cut.by_size.follow(loaded)
    assert loaded.network is old


def test_who_looks_between_a_load_and_its_end_gives_nobody_more_tries() -> None:
    """The network was loaded, and its cut did not know yet: its tries began anew."""
    cut = Cut(*[None] * 10)
    load = cut.by_size._load

    async def looked_at(model: Any, shapes: dict[str, list[int]], most_s: float) -> None:
        await load(model, shapes, most_s)
        cut.by_size.helps("gold", cut.job(10_000))
        await asyncio.sleep(0)

    cut.by_size._load, length = looked_at, 10
    for second in range(100):
        cut.now_s = 1e4 * second
        length *= 2 if cut.asked(length) else 1
    assert len(cut.loads) == MOST


def test_it_grows_with_what_is_sent_and_never_back() -> None:
    cut = Cut(None, None)
    assert cut.asked(100) and cut.loads == [[1, 100]]
    cut.now_s = 1e6
    assert not cut.asked(90), "it is cut for more"
    assert cut.asked(400) and cut.loads == [[1, 100], [1, 400]]


def test_what_takes_longer_counts_as_larger_whatever_its_sizes() -> None:
    """A tenant with long inputs that are cheap kept others' networks from being cut for what takes long."""
    cut = Cut(None, None)
    assert cut.asked(100)
    cut.now_s = 1e6
    rows_s = {10: 0.1, 0: 0.19}  # what it was cut by, and what is asked
    cut.costs.least_s = lambda network, row: rows_s[row]
    assert not cut.asked(90), "noise"
    rows_s[0] = 0.3
    assert cut.asked(90) and cut.loads == [[1, 100], [1, 90]]


def test_it_is_cut_for_as_many_rows_as_are_sent_unless_they_take_too_long() -> None:
    """Eight pictures at once were refused where one was served: blocks were those of one."""
    cut = Cut(None)
    assert cut.asked(100, rows=8) and cut.loads == [[8, 100]]
    cut = Cut(None)
    assert cut.asked(100, rows=21) and cut.loads == [[1, 100]], "21 of 0.1 s take more than two seconds"


def test_it_is_cut_for_a_row_where_rows_can_run_one_by_one_and_not_where_these_are_short() -> None:
    cut = Cut(None)
    cut.costs.by_row.add(cut.model.network.index)
    cut.row_s = 0.02
    assert not cut.asked(100, rows=8), "each is short enough"
    cut.row_s = 0.03
    assert cut.asked(100, rows=8) and cut.loads == [[1, 100]]


def test_inputs_that_have_no_rows_in_common_keep_their_sizes() -> None:
    """Those of a graph's edges had one edge, or as many as it has nodes, and it could not be cut."""
    cut = Cut(None)
    cut.model.ports["inputs"] = [
        {"name": name, "datatype": "FP32", "shape": shape}
        for name, shape in (("edge", [-1]), ("ends", [2, -1]), ("x", [-1, 4]))
    ]
    job = cut.job(4, rows=900)
    job.shapes = ("edge", (900,)), ("ends", (2, 900)), ("x", (60, 4))
    cut.run_s = 1e-4

    async def waited() -> None:
        ended = cut.by_size.wanted("gold", job, 0.025)
        assert ended is not None
        await ended

    asyncio.run(waited())
    assert cut.given == [{"edge": [900], "ends": [2, 900], "x": [60, 4]}]


def test_it_is_cut_for_more_tokens_though_a_large_cache_shrinks() -> None:
    """They were fewer elements than those by which it was cut, and so it was not cut."""
    cut = Cut(None)
    cut.model.ports["inputs"] = [
        {"name": name, "datatype": "FP32", "shape": [1, -1]} for name in ("past", "x")
    ]
    cut.model.shapes = {"past": [1, 512], "x": [1, 1]}
    job = cut.job(200)
    job.shapes = ("past", (1, 0)), ("x", (1, 200))

    async def waited() -> None:
        ended = cut.by_size.wanted("gold", job, 0.025)
        assert ended is not None
        await ended

    asyncio.run(waited())
    assert cut.given == [{"past": [1, 0], "x": [1, 200]}]


def test_the_line_that_the_log_gives_can_be_pasted(tmp_path: Path) -> None:
    """It was a dictionary of Python's, and its 0 was refused."""
    shapes = {"past.0.key": [1, 8, 0, 64], 'größe "a\\b"\t': [1, 200]}
    (tmp_path / "net.toml").write_text(f"empty = true\n{in_toml(shapes)}\n")
    assert beside_from(tmp_path / "net.toml").shapes == shapes
    (tmp_path / "net.onnx").touch()
    file = tmp_path / "server.toml"
    head = 'anonymous = true\n[[device]]\nname = "cpu"\n[[tenant]]\nname = "gold"\n'
    entry = f'{head}[[network]]\nname = "net"\nonnx = "net.onnx"\n{in_toml(shapes)}\n'
    file.write_text(f"{entry}empty = true\n")
    assert load_server(file).network[0].shapes == shapes
    file.write_text(entry)
    with pytest.raises(
        ConfigError, match="0.key.2 is 0; it must be at least 1; with empty = true beside shapes, 0 is"
    ):
        load_server(file)
    (tmp_path / "net.toml").write_text("empty = true\nshapes = { x = [0, 1] }\n")
    with pytest.raises(ConfigError, match="shapes.x.0 is 0; it must be at least 1$"):
        beside_from(tmp_path / "net.toml")


def test_tries_are_few_and_further_and_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who came in a pause was refused for good, though it had only to wait."""
    pauses = list[float]()

    def rest(tries: object, pause_s: float) -> asyncio.Future[None]:
        pauses.append(pause_s)
        cut.now_s += pause_s
        rested: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        rested.set_result(None)
        return rested

    monkeypatch.setattr("eunomia.serving.devices.by_size._rest", rest)
    cut, length = Cut(*[None] * 10), 10
    while cut.asked(length):
        length = cut.loads[-1][1] * 2
    assert len(cut.loads) == MOST and pauses == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S]
    assert cut.asked(length, "bronze"), "who sends other sizes has tries left"
    cut.placed({})
    assert cut.asked(50), "an administrator has loaded it"


def test_where_a_block_is_too_long_it_is_cut_by_half_the_size() -> None:
    cut = Cut(ModelError("a block takes 28 ms"), ModelError("a block takes 26 ms"), None)
    assert cut.asked(400) and [length for _, length in cut.loads] == [400, 192, 96]
    assert cut.model.shapes == {"x": [1, 96]}
    cut = Cut(*[ModelError("it does not run")] * 10)
    old = cut.model
    assert cut.asked(400) and len(cut.loads) == HALVINGS + 1 and cut.loading.models["net"] is old
    cut = Cut(*[ModelError("it is slow")] * 10)
    cut.takes_s = 2.0 * LATE_S
    assert cut.asked(400) and len(cut.loads) == 1, "nobody else's network comes or goes meanwhile"
    assert not cut.asked(401), "the pause begins at its end"
    cut = Cut(LongBlock("a block takes 400 ms", 0.4), None)
    assert cut.asked(400) and [length for _, length in cut.loads] == [400, 96], "and 25 may it take"
    cut = Cut(Away("no device is alive"), None)
    assert cut.asked(400) and len(cut.loads) == 1, "half of it would not load either"


def test_sizes_that_were_too_long_for_a_cut_are_not_tried_again_and_smaller_ones_are() -> None:
    """A request that can never run waited for all the tries that there are."""
    cut = Cut(ModelError("a block takes 28 ms"), None, ModelError("a block takes 28 ms"), None, None, None)
    assert cut.by_size.helps("gold", cut.job(400))
    assert cut.asked(400) and cut.model.shapes == {"x": [1, 192]}
    assert cut.by_size.helps("gold", cut.job(300)), "after the pause"
    cut.now_s = 30.0
    assert not cut.asked(400) and not cut.asked(500) and cut.asked(300)
    assert not cut.by_size.helps("gold", cut.job(500)) and cut.by_size.helps("bronze", cut.job(500))
    cut.now_s = 40.0
    assert cut.asked(400, "bronze"), "what fails says nothing of another tenant's"
    cut.now_s = 1e6
    assert cut.asked(500), "a busy machine may have been the cause"


def test_a_full_disk_says_nothing_of_the_size() -> None:
    """It counted as too large for a minute, and as one of few tries."""
    cut = Cut(*[Away("cannot write: the disk is full")] * 9, None)
    for n in range(9):
        assert cut.asked(400) and cut.by_size.helps("gold", cut.job(400))
        pause_s = min(PAUSE_S * 2.0**n, AGAIN_S)
        assert cut.by_size._tries["net"].due_s == cut.now_s + pause_s
        if n:
            with pytest.raises(Unavailable, match="not get ready for inputs of this size") as caught:
                cut.asked(400)
            assert caught.value.retry_after_s == pause_s
        cut.now_s += pause_s
    assert cut.asked(400) and cut.model.shapes == {"x": [1, 400]}
    assert cut.by_size._tries["net"].due_s == cut.now_s + PAUSE_S, "it was the first"


def test_who_waits_for_a_pause_hears_that_the_server_stops() -> None:
    async def main() -> None:
        cut = Cut(None)
        for length in (100, 400):
            ended = cut.by_size.wanted("gold", cut.job(length), 0.025)
            assert ended is not None
            if length == 400:
                cut.by_size.close()
            await ended
        assert len(cut.loads) == 1

    asyncio.run(main())


def test_what_an_operator_gave_or_a_run_that_is_long_is_left_alone() -> None:
    assert not Cut(given=True).asked(400)
    assert not Cut(run_s=30.0).asked(400)
    strange = Cut()
    strange.model.network = replace(strange.model.network, untried=True)
    assert not strange.asked(400)
