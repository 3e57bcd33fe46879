"""What the cache keeps of a network's blocks is found again by all that these follow from."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import onnx
import pytest

from eunomia.core.arrays import Tensor
from eunomia.core.errors import ModelError, OutputError
from eunomia.serving.blocks import plan
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.blocks.optimise import Optimised, content_key, optimise
from eunomia.serving.devices.cutting import CHOSEN, Away, kept, prepare, refusal, told
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.prepare import FULL
from eunomia.serving.devices.worker import full_disk_named
from eunomia.serving.models.entry import Entry
from eunomia.serving.models.repository import Repository
from eunomia.serving.protocol.errors import Unavailable
from tests import children
from tests.serving.live import options, running
from tests.serving.test_two_devices import Bench

MANY = {"x": [64, 4]}
CHAIN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 4] x) => (float[n, 4] y) { a = Sin (x) b = Softmax (a) y = Softmax (b) }"""

LINEAR = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 200] x) => (float[n, 200] y) { y = MatMul (x, w) }"""
NARROW = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # for each file: as where the disk is full
runpy.run_module("eunomia.serving.devices.prepare", run_name="__main__")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A network whose every node takes 1 ms a row."""

    def rows(optimised: Optimised, feed: Mapping[str, Tensor], runs: int = 0) -> list[float]:
        return [1e-3 * len(feed["x"]) for _ in optimised.model.graph.node]

    monkeypatch.setattr(plan, "node_times_s", rows)
    clocks = SimpleNamespace(perf_counter=count().__next__, thread_time=count().__next__)
    monkeypatch.setattr(plan, "time", clocks)  # it had its core for itself
    (tmp_path / "chain.onnx").write_bytes(onnx.parser.parse_model(CHAIN).SerializeToString())
    return str(tmp_path / "chain.onnx")


def optimise_chain(folder: Path) -> Optimised:
    (folder / "chain.onnx").write_bytes(onnx.parser.parse_model(CHAIN).SerializeToString())
    return optimise(folder / "chain.onnx", folder / "cache")


def test_two_networks_of_one_file_are_cut_by_their_own_sizes(tmp_path: Path, file: str) -> None:
    """The second took the times of the first, and stayed whole."""
    cache = str(tmp_path / "cache")
    small, large = (prepare(file, cache, shapes, 50e-3) for shapes in ({}, MANY))
    assert (len(small.blocks), len(large.blocks)) == (1, 3)


@pytest.mark.parametrize("order", [[{}, MANY], [MANY, {}]])
def test_two_networks_of_one_file_keep_their_blocks_beside_each_other(
    tmp_path: Path, file: str, order: list[dict[str, list[int]]]
) -> None:
    """They had one folder: a device that started again found the blocks of the other network, which were not its."""
    cache, key = str(tmp_path / "cache"), content_key(Path(file))
    cuts = [prepare(file, cache, shapes, 50e-3) for shapes in order]
    for shapes, cut in zip(order, cuts, strict=True):
        for of_content in ("", key):
            found = kept(file, cache, shapes, 50e-3, of_content)
            assert found is not None and found.folder == cut.folder
            assert [*map(list, found.blocks)] == [*map(list, cut.blocks)]
        again = load_network(file, cache, shapes, 50e-3, known_s=[0.1] * len(cut.blocks), key=key)
        assert again.blocks == len(cut.blocks) and again.block_s == [0.1] * again.blocks


def test_a_target_that_differs_in_its_last_digits_is_another(tmp_path: Path, file: str) -> None:
    cache = str(tmp_path / "cache")
    prepare(file, cache, {}, 1e-3)
    assert kept(file, cache, {}, float(np.nextafter(1e-3, 1.0))) is None


@pytest.mark.parametrize("given_first", [False, True])
def test_sizes_that_are_found_for_one_network_and_given_for_another_are_the_same(
    tmp_path: Path, given_first: bool
) -> None:
    groups = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[rows, n] x) => (float[rows, m, 8] y) <int64[3] s = {0, -1, 8}> { y = Reshape (x, s) }"""
    path, cache, found = str(tmp_path / "groups.onnx"), str(tmp_path / "cache"), {"x": [1, 8]}
    Path(path).write_bytes(onnx.parser.parse_model(groups).SerializeToString())
    if given_first:
        assert prepare(path, cache, found, 1e-3).tried == {}
    first = prepare(path, cache, {}, 1e-3)
    assert first.tried == found
    for shapes in ({}, found):
        again = kept(path, cache, shapes, 1e-3)
        assert again is not None and again.folder == first.folder


def test_a_damaged_plan_is_none(tmp_path: Path, file: str) -> None:
    cache = str(tmp_path / "cache")
    cut = prepare(file, cache, {}, 1e-3)
    for damaged in ("[1]", "{", '{"tried": 3}', "{}"):
        (cut.folder / "plan.json").write_text(damaged)
        assert kept(file, cache, {}, 1e-3) is None
    assert prepare(file, cache, {}, 1e-3).folder == cut.folder


def test_a_cut_by_sizes_that_clients_chose_is_marked(tmp_path: Path, file: str) -> None:
    """Of one that was there before, somebody else may have need."""
    cuts = [prepare(file, str(tmp_path / "cache"), shapes, 1.0, most_s=1.0) for shapes in ({}, MANY)]
    assert all((cut.folder / CHOSEN).exists() for cut in cuts)
    ours = prepare(file, str(tmp_path / "cache"), {}, 2.0)
    assert prepare(file, str(tmp_path / "cache"), {}, 2.0, most_s=1.0).folder == ours.folder
    assert not (ours.folder / CHOSEN).exists()


def test_of_a_cut_with_a_long_block_nothing_is_written(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its blocks were, and taken away again."""
    cache, written = tmp_path / "cache", Mock()
    monkeypatch.setattr("eunomia.serving.devices.cutting.write_blocks", written)
    with pytest.raises(LongBlock, match="a block takes 64 ms with such inputs, and may take 50"):
        prepare(file, str(cache), MANY, 50e-3, most_s=50e-3)
    assert not written.called and [one.suffix for one in cache.iterdir()] == [".onnx"]


@pytest.mark.parametrize(("node_s", "runs"), [(0.05, [0, plan.RUNS - 1]), (0.4, [0, 0]), (1.6, [0])])
def test_the_first_run_may_show_that_a_block_is_too_long(
    node_s: float, runs: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a network with one long operator, all runs were timed before it was refused."""
    optimised, ran = optimise_chain(tmp_path), list[int]()

    def times_s(optimised: Optimised, feed: Mapping[str, Tensor], runs: int = plan.RUNS) -> list[float]:
        ran.append(runs)
        return [node_s] * 3

    monkeypatch.setattr(plan, "node_times_s", times_s)
    clocks = SimpleNamespace(perf_counter=count().__next__, thread_time=count().__next__)
    monkeypatch.setattr(plan, "time", clocks)
    feed, far = {"x": np.zeros((1, 4), np.float32)}, node_s * plan.FAR > 3.0
    with pytest.raises(LongBlock) if far else contextlib.nullcontext():
        assert len(plan.plan_blocks(optimised, feed, 1e-3, most_s=0.7).blocks) == 3
    assert ran == runs and any(tmp_path.rglob("*.times.json")) != far


def test_a_full_disk_is_no_fault_of_the_file(tmp_path: Path) -> None:
    """It was called no ONNX file."""
    square = onnx.numpy_helper.from_array(np.ones((200, 200), np.float32), "w")
    model = onnx.parser.parse_model(LINEAR)
    model.graph.initializer.append(square)
    onnx.save(model, str(tmp_path / "square.onnx"))
    words = [tmp_path / "square.onnx", tmp_path / "cache", "{}", "0.0015", "", "0.0"]
    done = children.run(children.python("-c", NARROW, *words))
    assert (done.returncode, done.stdout) == (
        FULL, f"cannot write '{tmp_path}/cache': File too large\n",
    ), done.stderr  # fmt: skip


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "cannot write '.*': the disk is full; free some space"), (errno.ENOENT, "weights")],
)
def test_at_the_start_a_full_disk_is_named_and_a_file_that_is_missing_stays(
    tmp_path: Path, number: int, said: str
) -> None:
    with pytest.raises((OSError, OutputError), match=said), full_disk_named(tmp_path):
        raise OSError(number, "weights.data is not there")


def test_all_networks_that_find_no_room_at_the_start_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty lines of a traceback said so of the first one."""

    async def load(self: Repository, name: str, *, tell: bool) -> None:
        raise Unavailable(f"model '{name}' does not load: the disk is full")

    monkeypatch.setattr(Repository, "load", load)
    with pytest.raises(ModelError, match="'small' .* full\\nmodel 'other' .* full"):
        settings = options(tmp_path)
        entries = [*settings.networks, Entry("other", tmp_path / "small.onnx")]
        with running(tmp_path, networks=entries):
            pass


@pytest.mark.parametrize(
    "error", [LongBlock("it takes 30 ms", 0.03), Away("the disk is full"), ModelError("no")]
)
def test_a_refusal_arrives_as_what_it_was(error: ModelError) -> None:
    said = refusal({"why": str(error), **told(error)})
    assert type(said) is type(error) and vars(said) == vars(error) and str(said) == str(error)


def test_what_clients_chose_does_not_stay_on_disk_when_the_server_stops(tmp_path: Path) -> None:
    """Each server left a copy of all weights by other sizes, which no later one reads."""
    cut, trial = (tmp_path / f"abc-0.001-{sizes}.blocks" for sizes in ("12ab", "34cd"))
    for folder in (cut, trial):
        folder.mkdir()
    (tmp_path / "abc.12ab.times.json").touch()

    async def main() -> None:
        bench = Bench(tmp_path)
        model = bench.pool.models["net"]
        model.key, model.chosen = cut.stem, True
        await bench.pool.close()

    asyncio.run(main())
    assert sorted(tmp_path.iterdir()) == [trial]
