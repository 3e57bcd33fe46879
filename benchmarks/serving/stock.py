"""tritonclient's four clients of one server: HTTP and gRPC, each with and without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.serving.live import Live
from benchmarks.serving.stage import KEY, SHAPE, Stage, call
from benchmarks.serving.tally import Tally

CLIENTS = ("HTTP", "HTTP, asyncio", "gRPC", "gRPC, asyncio")
ROWS_OF_LARGE = 16  # pictures in a request that takes a while


@dataclass(frozen=True)
class Place:
    """A server with two tenants, and what its network ``small`` says to ``image``."""

    live: Live
    key: str
    other_key: str
    image: npt.NDArray[np.float32]
    answer: npt.NDArray[np.float32]


def bearer(key: str) -> dict[str, str]:
    """Headers of whoever has the key."""
    return {"authorization": f"Bearer {key}"}


ADMIN = bearer(KEY)


def prepared(s: Stage) -> Place:
    """Two tenants with keys on a running server."""
    import onnxruntime as ort

    keys = []
    for name in ("acme", "other"):
        promise = {"deadline_s": 30.0, "slo": {"target": 0.9}}
        call(s.live, f"/v2/eunomia/tenants/{name}", {"promises": {"*": promise}}, method="PUT")
        keys.append(str(call(s.live, f"/v2/eunomia/tenants/{name}/keys", method="POST")[1]["key"]))
    image = np.random.default_rng(0).random(SHAPE, np.float32)
    whole = ort.InferenceSession(str(Path(s.folder, "small.onnx")), providers=["CPUExecutionProvider"])
    return Place(s.live, keys[0], keys[1], image, np.asarray(whole.run(["logits"], {"image": image})[0]))


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
        """Of the tenant."""
        return bearer(self.place.key)

    def tensor(
        self, name: str = "image", array: npt.NDArray[Any] | None = None, datatype: str = "FP32", **more: Any
    ) -> Any:
        """An input."""
        array = self.place.image if array is None else array
        tensor = self.module.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array, **more)
        return tensor

    def infer(self, **more: Any) -> Any:
        """One request to ``small``."""
        return self.client.infer("small", [self.tensor()], headers=self.headers, **more)

    def large(self, **more: Any) -> Any:
        """One request that takes a while."""
        return self.client.infer("large", [self.pictures()], headers=self.headers, **more)

    def pictures(self) -> Any:
        """The input of ``large``."""
        return self.tensor(array=np.repeat(self.place.image, ROWS_OF_LARGE, axis=0))

    def exact(self, result: Any) -> bool:
        """Whether it is, bit for bit, what the whole network says."""
        found = result.as_numpy("logits")
        return found is not None and np.array_equal(found, self.place.answer)


@contextmanager
def sync_stub(name: str, place: Place) -> Iterator[Stub]:
    """A client without an event loop."""
    import tritonclient.grpc
    import tritonclient.http

    if name == "HTTP":
        module: Any = tritonclient.http
        client = module.InferenceServerClient(
            place.live.http, concurrency=8, network_timeout=120, connection_timeout=120
        )
    else:
        module = tritonclient.grpc
        client = module.InferenceServerClient(place.live.grpc)
    try:
        yield Stub(name, module, client, place)
    finally:
        client.close()


def aio_stub(name: str, place: Place) -> Stub:
    """A client of the running event loop."""
    import tritonclient.grpc.aio
    import tritonclient.http.aio

    if name.startswith("HTTP"):
        module: Any = tritonclient.http.aio
        return Stub(
            name,
            module,
            module.InferenceServerClient(place.live.http, conn_limit=100, conn_timeout=120),
            place,
        )
    module = tritonclient.grpc.aio
    return Stub(name, module, module.InferenceServerClient(place.live.grpc), place)


def identity(s: Stub, result: Any) -> str:
    """The request's name, as the answer repeats it."""
    response = result.get_response()
    return str(response["id"] if s.http else response.id)


def given(answer: Any) -> Any:
    """An answer that is there already; raises it if it is an error."""
    if isinstance(answer, BaseException):
        raise answer
    return answer


Row = Callable[[Stub, Tally], Coroutine[Any, Any, None]]


async def run_row(name: str, client: str, row: Row, place: Place) -> Tally:
    """One row by one client."""
    t = Tally(name, client)
    if "asyncio" in client:
        stub = aio_stub(client, place)
        try:
            await row(stub, t)
        finally:
            await stub.client.close()
    else:
        with sync_stub(client, place) as stub:
            await row(stub, t)
    return t
