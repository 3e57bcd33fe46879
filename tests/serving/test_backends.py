"""What every device backend must hold, a newcomer too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from eunomia.core.errors import UnknownNameError
from eunomia.serving.devices.backends import BACKENDS, loader_of
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.network import LoadedNetwork
from eunomia.serving.devices.piece import live_of
from eunomia.serving.models.convolutional import mobilenet_v2, resnet50
from tests.serving.live import SIDE, running
from tests.serving.test_server import IMAGE, ask, tritongrpc

MAKERS = {"mobilenet_v2": mobilenet_v2, "resnet50": resnet50}


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend of which the packages are here."""
    name: str = request.param
    if not BACKENDS[name].here:
        pytest.skip(f"what {name} needs is not installed")
    return name


@dataclass(frozen=True)
class Known:
    """A network's file, and what the first backend says of it."""

    path: Path
    description: Message


@pytest.fixture(scope="module", params=MAKERS)
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """Once for all backends: a hundred megabytes to make and to optimise."""
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "n.onnx"
    path.write_bytes(MAKERS[request.param](side=SIDE, classes=10))
    return Known(path, loader_of("cpu")(str(path), str(folder), {}, 1e-3, 0.0).description())


def answer(path: Path, image: np.ndarray) -> np.ndarray:
    """Of ONNX Runtime for the whole file."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"image": image})[0]
    return found


def test_blocks_give_the_whole_networks_answer(backend: str, known: Known, tmp_path: Path) -> None:
    network: LoadedNetwork = loader_of(backend)(str(known.path), str(tmp_path), {}, 1e-3, 0.0)
    assert len(network.block_s) == network.blocks >= 1 and all(t > 0.0 for t in network.block_s)
    for batch in (1, 3):
        image = np.random.default_rng(batch).random((batch, 3, SIDE, SIDE), np.float32)
        live = live_of({"image": image})
        for n in range(network.blocks):
            live = network.run_block(n, live)
        np.testing.assert_allclose(live["logits"].numpy(), answer(known.path, image), rtol=1e-3, atol=1e-4)
    mine = network.description()
    assert all(mine[key] == known.description[key] for key in ("inputs", "outputs"))


def test_a_server_answers_with_it(backend: str, tmp_path: Path) -> None:
    with running(tmp_path, devices=[DeviceSpec("one", backend)], block_s=5e-4) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        found = ask(tritongrpc, stub).as_numpy("logits")
    np.testing.assert_allclose(found, answer(tmp_path / "small.onnx", IMAGE), rtol=1e-3, atol=1e-4)


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'torch'"):
        loader_of("troch")
