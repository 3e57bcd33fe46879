"""The four clients of tritonclient, HTTP and gRPC, with and without an event loop; and what tests demand of them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.serving.models.convolutional import resnet50
from tests.serving.live import GOLD, SIDE
from tests.serving.process import IMAGE, Process, process, write_server

CLIENTS = ("HTTP", "HTTP, asyncio", "gRPC", "gRPC, asyncio")
ROWS_OF_LARGE = 16  # pictures in a request that takes a while


@dataclass(frozen=True)
class Place:
    """A server in a process of its own, and what its network ``small`` says to ``IMAGE``."""

    server: Process
    answer: npt.NDArray[np.float32]


@contextmanager
def place(folder: Path, **more: Any) -> Iterator[Place]:
    """First come first served, with a large network beside the small one, cut at every block."""
    import onnxruntime as ort

    networks = folder / "networks"
    networks.mkdir()
    (networks / "large.onnx").write_bytes(resnet50(side=SIDE, classes=10))
    changes = {
        "models_dir": str(networks),
        "block_ms": 0.5,
        "calm_ms": 0.0,
        "arena_mib": 64.0,
        "shared_memory": True,
        **more,
    }
    with process(write_server(folder, **changes)) as server:
        assert server.ask("/v2/repository/models/large/load", {})[0] == 200
        whole = ort.InferenceSession(str(folder / "small.onnx"), providers=["CPUExecutionProvider"])
        yield Place(server, np.asarray(whole.run(["logits"], {"image": IMAGE})[0]))


def bearer(key: str) -> dict[str, str]:
    """Headers of whoever has the key."""
    return {"authorization": f"Bearer {key}"}


@dataclass(frozen=True)
class Stub:
    """One of the four clients, and its module."""

    name: str
    module: Any
    client: Any
    place: Place

    @property
    def http(self) -> bool:
        """Or gRPC."""
        return self.name.startswith("HTTP")

    @property
    def headers(self) -> dict[str, str]:
        """Of the tenant, made anew: tritonclient writes the length of a body into it."""
        return bearer(GOLD)

    def tensor(
        self, name: str = "image", array: npt.NDArray[Any] = IMAGE, datatype: str = "FP32", **more: Any
    ) -> Any:
        """An input."""
        tensor = self.module.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array, **more)
        return tensor

    def infer(self, **more: Any) -> Any:
        """One request to ``small``."""
        return self.client.infer("small", [self.tensor()], headers=self.headers, **more)

    def pictures(self) -> Any:
        """The input of ``large``: a request that takes a while."""
        return self.tensor(array=np.repeat(IMAGE, ROWS_OF_LARGE, axis=0))

    def exact(self, result: Any) -> bool:
        """Whether it is, bit for bit, what the whole network says."""
        found = result.as_numpy("logits")
        return found is not None and np.array_equal(found, self.place.answer)

    def identity(self, result: Any) -> str:
        """The request's name, as the answer repeats it."""
        response = result.get_response()
        return str(response["id"] if self.http else response.id)


@asynccontextmanager
async def stub(name: str, place: Place) -> AsyncIterator[Stub]:
    """One of ``CLIENTS``, connected."""
    import tritonclient.grpc
    import tritonclient.grpc.aio
    import tritonclient.http
    import tritonclient.http.aio

    address, more = place.server.grpc, {}
    if name.startswith("HTTP"):
        more = {"conn_limit": 100, "conn_timeout": 120} if "asyncio" in name else {"concurrency": 8}
        address = place.server.url.removeprefix("http://")
    module: Any = getattr(tritonclient, name.partition(",")[0].lower())
    module = module.aio if "asyncio" in name else module
    made = Stub(name, module, module.InferenceServerClient(address, **more), place)
    try:
        yield made
    finally:
        await done(made.client.close())


async def done(value: Any) -> Any:
    """The value, or what it comes to."""
    return await value if inspect.isawaitable(value) else value


async def right(name: str, call: Callable[[], Any], fits: Callable[[Any], object] = bool) -> Any:
    """Call; the answer, awaited if need be, must fit."""
    answer = await done(call())
    assert fits(answer), f"{name}: {answer}"
    return answer


async def refused(name: str, call: Callable[[], Any], words: str) -> None:
    """Call; it must raise, with one of these words (separated by ``|``) in its message."""
    try:
        answer = await done(call())
    except Exception as error:
        assert any(word in str(error) for word in words.split("|")), (
            f"{name}: {type(error).__name__}: {error}"
        )
    else:
        raise AssertionError(f"{name}: not refused: {answer}")
