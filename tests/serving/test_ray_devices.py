"""Devices that are Ray actors: the answers of a local worker, through reloads, killed actors and killed nodes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.config.server import server_from
from eunomia.core.errors import ConfigError, OutputError
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.places import place_must_be_installed
from eunomia.serving.devices.ray.clocks import Clocks
from eunomia.serving.devices.ray.packing import moved, pack, size_of
from eunomia.serving.devices.recovery import MAX_LOST
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.observe.journal import read_lines
from eunomia.serving.protocol.errors import Cancelled
from eunomia.serving.server import Server
from eunomia.workload.tenant import Agreement
from tests.patience import PATIENCE_S, until, until_async
from tests.serving.live import GOLD, SIDE, ask, options, running

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")
PICTURES = [np.random.default_rng(n).random((1, 3, SIDE, SIDE), np.float32) for n in range(4)]
DEVICE = {"name": "far", "on": "ray"}


class Nodes:
    """A cluster of this machine: a head without work, and nodes with one ``npu`` each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self.workers = [self.add()]

    def add(self) -> Any:
        """Ray gives up a node that has not started within 30 s: on a busy machine one more is tried."""
        for _ in range(2):
            with suppress(Exception):
                return self.cluster.add_node(num_cpus=1, resources={"npu": 1})
        return self.cluster.add_node(num_cpus=1, resources={"npu": 1})

    def lose(self) -> None:
        """The oldest node, at once, with all its processes."""
        self.cluster.remove_node(self.workers.pop(0), allow_graceful=False)

    @property
    def spec(self) -> DeviceSpec:
        return DeviceSpec("far", place="ray", address=self.cluster.address, resource="npu")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        found = Nodes()
        yield found
        found.cluster.shutdown()


def infer(server: Server, picture: Any, **parameters: object) -> tuple[int, Any]:
    data = {
        "name": "image",
        "datatype": "FP32",
        "shape": list(picture.shape),
        "data": picture.ravel().tolist(),
    }
    return ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [data], "parameters": parameters})


def logits(server: Server) -> list[list[float]]:
    return [infer(server, picture)[1]["outputs"][0]["data"] for picture in PICTURES]


def test_answers_are_those_of_a_local_worker_whole_and_in_blocks_and_after_a_reload(
    nodes: Nodes, tmp_path: Path
) -> None:
    with running(tmp_path) as server:
        wanted = logits(server)
    for block_s in (1.0, 1e-4):
        with running(tmp_path, devices=[nodes.spec], block_s=block_s) as server:
            assert logits(server) == wanted
            assert (server.pool.models["small"].network.blocks > 1) == (block_s < 1.0)
            status, _ = ask(server, "POST", "/v2/repository/models/small/load", "eun_admin-key", {})
            assert status == 200 and logits(server) == wanted
            wrong = infer(server, np.ones((1, 3, 5, 5), np.float32))
            assert wrong[0] == 400 and logits(server) == wanted


def test_a_killed_node_loses_no_accepted_request(nodes: Nodes, tmp_path: Path) -> None:
    with running(tmp_path, devices=[nodes.spec], ledger_dir=tmp_path / "ledger") as server:
        wanted = logits(server)
        nodes.workers.append(nodes.add())
        found: list[tuple[int, int, Any]] = []

        def client(n: int) -> None:
            while not server.pool.deaths:  # so that some are inside when the node dies
                found.append((n, *infer(server, PICTURES[n])))

        with ThreadPoolExecutor(4) as clients:
            sent = [clients.submit(client, n) for n in range(4)]
            until(lambda: len(found) >= 8)
            nodes.lose()
            for one in sent:
                one.result(PATIENCE_S)
        until(lambda: server.service.ready)
        assert server.pool.deaths >= 1
        accepted = [(n, body) for n, status, body in found if status == 200]
        assert all(body["outputs"][0]["data"] == wanted[n] for n, body in accepted)
        refused = [body["error"] for _, status, body in found if status != 200]
        assert set(refused) <= {"no device answers"}  # said before they were accepted
        assert not server.pool.busy and server.pool.arena.free_bytes == server.pool.arena.room_bytes
    paths = sorted((tmp_path / "ledger").glob("journal-*.log"))
    outcomes = Counter(line[3] for path in paths for line in read_lines(path))
    assert outcomes["hit"] + outcomes["late"] == len(accepted) + len(PICTURES)


def test_who_gives_up_leaves_nothing_behind_on_the_far_device(nodes: Nodes, tmp_path: Path) -> None:
    """One that runs and one that waits are cancelled; the third gets its answer, and all room is free again."""

    async def main() -> list[object]:
        async with Server(replace(options(tmp_path), devices=[nodes.spec])) as server:
            pool = server.pool
            pair, network = pool.dispatcher.add_pair(Agreement("gold", "small")), pool.models["small"].network
            jobs = [Job(pair, network, server.service.clock.now_s()) for _ in range(3)]
            answers = [pool.submit(job, {"image": PICTURES[0]}) for job in jobs]
            while not pool.execution.running():
                await asyncio.sleep(0.0)
            for job in jobs[:2]:
                pool.cancel(job)
            found = await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), PATIENCE_S)
            await until_async(lambda: not pool.busy and pool.arena.free_bytes >= pool.arena.room_bytes)
            assert pool.deaths == 0
            return list(found)

    ran, waited, answered = asyncio.run(main())
    assert isinstance(waited, Cancelled) and isinstance(answered, dict)
    assert isinstance(ran, dict | Cancelled)  # it may have been past its last boundary


def test_a_killed_actor_costs_a_restart_and_no_request(nodes: Nodes, tmp_path: Path) -> None:
    with running(tmp_path, devices=[nodes.spec]) as server:
        wanted = logits(server)
        relay = server.pool.devices[0].pid
        os.kill(relay, signal.SIGKILL)  # with it goes its actor
        until(lambda: server.pool.deaths == 1)
        until(lambda: server.service.ready)
        assert logits(server) == wanted and server.pool.devices[0].pid != relay


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"resource": "tpu"},
            "no node of .* has the resource 'tpu' and a CPU: start one by ray start .*--resources='{\"tpu\": 1}'",
        ),
        (
            {"kind": "cuda"},
            "no node of .* has the resource 'npu' and a GPU and a CPU: .*--resources='{\"npu\": 1}' --num-gpus=1",
        ),
        ({"address": "127.0.0.1:{free}"}, "no Ray cluster answers at '127.0.0.1:.*ray start --head"),
    ],
)
def test_what_is_missing_is_one_sentence(
    nodes: Nodes, tmp_path: Path, change: dict[str, str], said: str
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        facts = {name: value.format(free=free.getsockname()[1]) for name, value in change.items()}
        spec = DeviceSpec(
            **{"name": "far", "place": "ray", "address": nodes.cluster.address, "resource": "npu", **facts}
        )
        with (
            pytest.raises(OutputError, match=f"cannot start: device 'far': {said}"),
            running(tmp_path, devices=[spec]),
        ):
            pass


def test_requests_whose_node_never_returns_get_503_once_their_deadline_is_past(tmp_path: Path) -> None:
    """The pool decides: no cluster is needed."""

    async def main() -> tuple[int, str]:
        async with Server(options(tmp_path)) as server:
            pool = server.pool
            pair = pool.dispatcher.add_pair(Agreement("gold", "small"))
            pool.dispatcher.lanes[0].alive = False
            pool.recovery.in_vain[0] = 1
            now_s = server.service.clock.now_s()
            job = Job(pair, pool.models["small"].network, now_s, now_s + 0.2)
            answer = pool.submit(job, {"image": PICTURES[0]})
            with pytest.raises(Exception, match="no device answers, and its deadline has passed") as error:
                await asyncio.wait_for(answer, PATIENCE_S)
            assert error.value.http == 503 and error.value.retry_after_s > 0  # type: ignore[attr-defined]
            other = Job(pair, job.network, now_s)
            last = pool.submit(other, {"image": PICTURES[0]})
            for _ in range(MAX_LOST):
                pool.dispatcher.withdraw(other)
                pool.recovery.run_again(other, suspect=False)
                assert not last.done()
            pool.dispatcher.withdraw(other)
            pool.recovery.run_again(other, suspect=False)
            lost = last.exception()
            return lost.http, str(lost)  # type: ignore[union-attr]

    assert asyncio.run(main()) == (503, f"{MAX_LOST + 1} devices went away while it ran")


def test_settings_of_another_place_are_refused_and_the_package_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for device, said in (
        (DEVICE | {"cores": [1]}, 'cores is for a device without on = "ray"; take it out'),
        ({"name": "near", "resource": "npu"}, 'resource is for a device with on = "ray"; take it out'),
        (DEVICE | {"address": "ray://h:1"}, "address"),
        (DEVICE | {"on": "slurm"}, "on"),
    ):
        with pytest.raises(ConfigError, match=said):
            server_from({"device": [device], "tenant": [{"name": "t"}], "anonymous": True}, (), "file", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"device 'far': on = \"ray\" needs .* ray, .*pip install"):
        place_must_be_installed("far", "ray")
    place_must_be_installed("near", "process")


def test_times_of_another_clock_come_home_within_the_way() -> None:
    """A clock 1000 s ahead; ways of 1 and 3 ms, then of 1 and 1 ms: the shift is known to half a way."""
    clocks = Clocks()
    for left_s, way_s, back_s in ((0.0, 0.001, 0.003), (1.0, 0.001, 0.001)):
        began_s, ended_s = left_s + way_s, left_s + way_s + 0.010
        message: dict[str, Any] = {"span_s": [began_s + 1000.0, ended_s + 1000.0]}
        message["ends_s"] = list(message["span_s"])
        clocks.set_here(message, left_s, ended_s + back_s)
    assert message["ends_s"] == pytest.approx([began_s, ended_s], abs=1e-9)
    assert message["span_s"] == pytest.approx([1.0, 1.012])


def test_packed_tensors_are_those_of_the_arena() -> None:
    memory = memoryview(bytearray(range(256)) * 40)
    one: Any = {"name": "x", "datatype": "FP32", "shape": [3], "offset": 4096}
    two: Any = {"name": "y", "datatype": "BYTES", "shape": [1], "offset": 5000, "size": 70}
    places, packed = pack(memory, [[one, two], [one]])
    assert [t["offset"] for member in places for t in member] == [0, 64, 192]
    for old, new in zip((one, two, one), (*places[0], *places[1]), strict=True):
        size, start = size_of(old), new["offset"]
        assert packed[start : start + size].tobytes() == bytes(memory[old["offset"] : old["offset"] + size])
    assert moved(places[0], 7)[1]["offset"] == 71
