"""What a server learns of networks side by side, and where it begins requests because of it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest

from eunomia.config.server import server_from
from eunomia.core.errors import ConfigError
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.neighbours import OWN, SAME, Neighbours, Ran, what_of
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.models.entry import Entry
from eunomia.serving.observe.co_runs import neighbours_of, write_co_runs
from eunomia.sharing.interference import CoRun
from eunomia.sharing.interference.table import read_co_runs
from eunomia.workload.tenant import Agreement
from tests.inference.policies.views import guarded
from tests.patience import until
from tests.serving.live import ADMIN, GOLD, running
from tests.serving.live import ask as call
from tests.serving.test_dispatcher import Replay

THREE = [frozenset({0}), frozenset({0}), frozenset({1})]
WHAT = (0, 1, 0, 4, False)


def _ran(device: int, network: str, start_s: float, took_s: float) -> Ran:
    return Ran(device, network, (hash(network) % 97, 1, 0, 4, False), start_s, start_s + took_s)


def test_kinds_follow_cores() -> None:
    near = Neighbours([*THREE, frozenset()])
    assert near.kind(0, 1) == near.kind(0, 3) == SAME and near.kind(0, 2) == OWN


def test_a_slowdown_is_learned_from_clear_runs_alone() -> None:
    near, at_s = Neighbours(THREE), 0.0
    for _ in range(10):  # a alone takes 10 ms, beside b on the other core 15
        near.ran(_ran(0, "a", at_s, 0.010), [])
        near.ran(_ran(2, "b", at_s + 0.2, 0.015), [])
        near.ran(_ran(0, "a", at_s + 0.2, 0.015), [])
        near.ran(_ran(2, "b", at_s + 0.4, 0.005), [])  # covers a third of the next one: not clear
        near.ran(_ran(0, "a", at_s + 0.4, 0.013), [])
        at_s += 1.0
    near.ran(_ran(1, "late", at_s + 9.0, 0.01), [])
    assert near.seen.keys() == {("a", ("b",), OWN)}
    assert near.seen["a", ("b",), OWN].count == 10
    assert near.slowdown("a", 0, [(2, "b")]) == pytest.approx(1.5, rel=0.1)
    assert near.slowdown("a", 0, [(1, "b")]) < 1.5  # of another kind less is known
    assert near.slowdown("a", 0, []) == 1.0


def test_a_neighbour_that_still_runs_counts() -> None:
    near = Neighbours(THREE)
    near.ran(_ran(0, "a", 0.0, 0.01), [])
    long = Ran(2, "b", WHAT, 0.9, 1.6)
    near.ran(_ran(0, "a", 1.0, 0.02), [long])
    near.ran(_ran(0, "a", 1.5, 0.02), [long])
    assert near.seen["a", ("b",), OWN].count == 1
    assert math.exp(near.seen["a", ("b",), OWN].log) == pytest.approx(2.0)


def test_a_larger_batch_is_no_slowdown() -> None:
    """Batches of 5 alone and of 8 beside b have one class of times: nothing is learned until 8 ran alone, too."""
    replay = Replay(guarded("fcfs"), np.ones((1, 1)), [1], DispatchOptions())
    five, eight = (what_of(Job(0, replay.networks[0], 0.0, math.inf, batch=n), 0, 1) for n in (5, 8))
    near = Neighbours(THREE)
    near.ran(Ran(0, "a", five, 0.0, 0.005), [])
    near.ran(_ran(2, "b", 1.0, 0.008), [])
    near.ran(Ran(0, "a", eight, 1.0, 1.008), [])
    near.ran(Ran(0, "a", eight, 2.0, 2.008), [])
    assert not near.seen
    near.ran(_ran(2, "b", 3.0, 0.008), [])
    near.ran(Ran(0, "a", eight, 3.0, 3.008), [])
    near.ran(_ran(1, "late", 9.0, 0.01), [])
    assert math.exp(near.seen["a", ("b",), OWN].log) == pytest.approx(1.0)


def test_the_table_is_written_and_read_again(tmp_path: Path) -> None:
    file, devices = tmp_path / "co_runs.csv", [DeviceSpec("x", cores=(0,)), DeviceSpec("y", cores=(1,))]
    known = [CoRun("a", ("b",), OWN, 1.4), CoRun("b", ("a",), OWN, 1.2), CoRun("c", ("a",), OWN, 1.1)]
    file.write_text(
        "target,neighbours,kind,slowdown\n"
        + "".join(f"{r.target},{r.neighbours[0]},{r.kind},{r.slowdown}\n" for r in known)
    )
    near = neighbours_of(devices, file, places=True)
    assert near.slowdown("a", 0, [(1, "b")]) > near.slowdown("c", 0, [(1, "a")]) > 1.0
    near.ran(_ran(0, "a", 0.0, 0.01), [])
    near.ran(_ran(1, "b", 1.0, 0.02), [])
    near.ran(_ran(0, "a", 1.0, 0.02), [])
    near.ran(_ran(0, "a", 9.0, 0.01), [])
    write_co_runs(near, file)
    found = {(row.target, row.neighbours): row.slowdown for row in read_co_runs(file)}
    assert found == {("a", ("b",)): pytest.approx(2.0), ("b", ("a",)): 1.2, ("c", ("a",)): 1.1}
    file.write_text("target,neighbours\n")
    with pytest.raises(ConfigError, match="no column 'kind'"):
        neighbours_of(devices, file, places=True)


@pytest.mark.parametrize("places", [False, True])
def test_a_request_begins_where_it_degrades_least(places: bool) -> None:
    # The policy takes the first of equal devices: device 1, which shares its core with device 0. Device 2 does not.
    replay = Replay(guarded("fcfs+eft"), np.ones((1, 3)), [1], DispatchOptions(lease_s=0.0))
    near = replay.dispatcher.neighbours = Neighbours(THREE, places=places)
    for _ in range(20):
        near.model.observe(CoRun("m0", ("m0",), SAME, 2.0))
        near.model.observe(CoRun("m0", ("m0",), OWN, 1.05))
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.play([(0.0, 0, math.inf, 0), (0.1, 0, math.inf, 0)])
    assert [device for *_, device in replay.log] == [0, 2 if places else 1]


def test_a_server_learns_from_a_strangers_client_and_network(tmp_path: Path) -> None:
    """SqueezeNet of the package onnx, asked by tritonclient for several at once, on devices of one core."""
    client = pytest.importorskip("tritonclient.http")
    network = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    if not network.exists():
        pytest.skip("this onnx has no test data")
    devices, table = [DeviceSpec("x", cores=(0,)), DeviceSpec("y", cores=(0,))], tmp_path / "co_runs.csv"
    more = {"devices": devices, "networks": [Entry("squeezenet", network)], "policy": "fair_edf"}
    key = {"authorization": f"Bearer {GOLD}"}
    image = client.InferInput("data_0", [1, 3, 224, 224], "FP32")
    image.set_data_from_numpy(np.zeros((1, 3, 224, 224), np.float32))
    with (
        running(tmp_path, **more, placement="least_degradation", co_runs=table) as server,
        client.InferenceServerClient(f"127.0.0.1:{server.http_port}", concurrency=12) as caller,
    ):

        def ask(count: int) -> None:
            asked = [caller.async_infer("squeezenet", [image], headers=key) for _ in range(count)]
            assert all(one.get_result().as_numpy("softmaxout_1").size == 1000 for one in asked)

        near = server.pool.dispatcher.neighbours
        assert near is not None
        for _ in range(3):
            ask(1)
        until(lambda: [ask(48), bool(near.seen)][-1])  # so many that both are busy all the time
        for policy in ("irina(patience_s=0.1)", "irina(batch=4)"):
            assert call(server, "PUT", "/v2/eunomia/policy", ADMIN, {"name": policy})[0] == 200
            ask(4)
        assert not server.guard.counts  # no decision of either was left to the fallback
    (row, *_) = read_co_runs(table)
    assert (row.target, row.neighbours, row.kind) == (
        "squeezenet",
        ("squeezenet",),
        SAME,
    ) and 0.1 < row.slowdown < 10.0


def test_one_device_leaves_nothing_to_choose() -> None:
    made = {
        "device": [{"name": "x"}],
        "tenant": [{"name": "t"}],
        "network": [{"name": "n", "builtin": "resnet50"}],
    }
    with pytest.raises(ConfigError, match="chooses between devices, and there is one; list another"):
        server_from({**made, "anonymous": True, "placement": "least_degradation"}, (), "server", None)
