"""A server that computes nothing: reads a request, waits for a given time, answers 4 KB.

It shows what clients and transport add alone: the same libraries as the live server (aiohttp, grpc.aio, uvloop), the
same stock clients and core. It waits about as long as the bare network runs, one request after the other as a device
does, because code that runs once in 40 ms on a core that sleeps in between is slower than code that runs all the time;
how long it really waited it notes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.serving.machine import cores, pin
from eunomia.serving.devices.memory import keep_freed_memory, set_aside

OUTPUT = bytes(4000)  # 1,000 numbers, as both networks answer
HEADER = json.dumps({
    "model_name": "m", "model_version": "1",
    "outputs": [{"name": "logits", "datatype": "FP32", "shape": [1, 1000], "parameters": {"binary_data_size": 4000}}],
}).encode()  # fmt: skip


@dataclass(frozen=True)
class Empty:
    """Where it listens."""

    http: str
    grpc: str

    def waited_s(self, next_s: float = 0.0) -> list[float]:
        """The wait of each request since this was last asked; from now on it is ``next_s``, or as before (0)."""
        with urllib.request.urlopen(f"http://{self.http}/waited?next={next_s}", timeout=30) as answer:
            waits_s: list[float] = json.loads(answer.read())
            return waits_s


@contextlib.contextmanager
def empty_server(wait_s: float) -> Iterator[Empty]:
    """On the front end's core, ready inside the block."""
    command = [sys.executable, "-m", "benchmarks.serving.empty", str(cores().front), str(wait_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    ports = json.loads(process.stdout.readline())
    try:
        yield Empty(f"127.0.0.1:{ports['http']}", f"127.0.0.1:{ports['grpc']}")
    finally:
        process.kill()
        process.wait()


async def _serve(wait_s: float) -> None:
    import grpc
    from aiohttp import web
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    waits_s, device, loop = list[float](), asyncio.Lock(), asyncio.get_running_loop()

    async def wait() -> None:
        async with device:
            began = time.perf_counter()
            await loop.run_in_executor(
                None, time.sleep, wait_s
            )  # uvloop's own clock counts only milliseconds
            waits_s.append(time.perf_counter() - began)

    async def waited(http: web.Request) -> web.Response:
        nonlocal wait_s
        wait_s = float(http.query["next"]) or wait_s
        found, waits_s[:] = list(waits_s), []
        return web.json_response(found)

    async def infer(http: web.Request) -> web.Response:
        pieces = []
        while piece := await http.content.readany():
            pieces.append(piece)
        await wait()
        headers = {
            "Inference-Header-Content-Length": str(len(HEADER)),
            "Content-Type": "application/octet-stream",
        }
        return web.Response(body=HEADER + OUTPUT, headers=headers)

    async def fine(_: web.Request) -> web.Response:
        return web.Response()

    class Grpc(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
        async def ModelInfer(self, request: object, _: object) -> object:  # noqa: N802
            await wait()
            tensor = service_pb2.ModelInferResponse.InferOutputTensor(
                name="logits", datatype="FP32", shape=[1, 1000]
            )
            return service_pb2.ModelInferResponse(outputs=[tensor], raw_output_contents=[OUTPUT])

    app = web.Application(client_max_size=2**26)
    app.add_routes(
        [web.get("/waited", waited), web.post("/v2/models/{m}/infer", infer), web.post("/v2/{rest:.*}", fine)]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 2**26)])
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Grpc(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    set_aside()
    print(json.dumps({"http": runner.addresses[0][1], "grpc": port}), flush=True)
    await asyncio.Event().wait()


def main(core: str, wait_s: str) -> None:
    """The process itself."""
    import uvloop

    pin(int(core))
    keep_freed_memory()
    uvloop.run(_serve(float(wait_s)))


if __name__ == "__main__":
    main(*sys.argv[1:])
