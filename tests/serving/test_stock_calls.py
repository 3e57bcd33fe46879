"""What stock clients may ask of a server of the protocol: every call, by each of tritonclient's four clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tritonclient.grpc")

from tests.patience import until_async  # noqa: E402
from tests.serving.live import ADMIN, SILVER  # noqa: E402
from tests.serving.process import IMAGE  # noqa: E402
from tests.serving.stock import CLIENTS, Place, Stub, bearer, done, refused, right, stub  # noqa: E402

MANY = 40  # requests at once


async def tensors(s: Stub) -> None:
    """Tensors as bytes and, over HTTP, as JSON, either way; answers bit for bit those of the whole network."""
    await right("infer", lambda: s.infer(request_id="a"), lambda r: s.exact(r) and s.identity(r) == "a")
    if not s.http:
        return
    for sent in (True, False):
        for back in (True, False):
            output = s.module.InferRequestedOutput("logits", binary_data=back)
            ask = partial(
                s.client.infer, "small", [s.tensor(binary_data=sent)], headers=s.headers, outputs=[output]
            )
            await right(f"binary in {sent}, out {back}", ask, s.exact)


async def compressed(s: Stub) -> None:
    """Bodies that are packed, as the clients offer it."""
    for kind in ("gzip", "deflate"):
        more = {"request_compression_algorithm": kind, "response_compression_algorithm": kind} if s.http else {
            "compression_algorithm": kind}  # fmt: skip
        await right(kind, partial(s.infer, **more), s.exact)


async def facts(s: Stub) -> None:
    """Health, metadata, configuration and statistics."""
    more = {} if s.http else {"as_json": True}
    of = {"headers": s.headers, **more}
    for name in ("is_server_live", "is_server_ready"):
        await right(name, getattr(s.client, name))
    await right("is_model_ready", lambda: s.client.is_model_ready("small"))
    await right("is_model_ready, version", lambda: s.client.is_model_ready("small", "1"))
    await right(
        "server metadata", lambda: s.client.get_server_metadata(**of), lambda m: m["name"] == "eunomia"
    )
    await right(
        "model metadata", lambda: s.client.get_model_metadata("small", **of),
        lambda m: [i["name"] for i in m["inputs"]] == ["image"] and int(m["inputs"][0]["shape"][1]) == 3,
    )  # fmt: skip
    await right(
        "configuration", lambda: s.client.get_model_config("small", **of),
        lambda c: [o["name"] for o in c.get("config", c)["output"]] == ["logits"],
    )  # fmt: skip
    before = served(await right("statistics", lambda: s.client.get_inference_statistics("small", **of)))
    await right("infer", s.infer, s.exact)
    await right(
        "statistics after one more", lambda: s.client.get_inference_statistics("small", **of),
        lambda found: served(found) == before + 1,
    )  # fmt: skip
    await right("statistics of all", lambda: s.client.get_inference_statistics(**of),
                  lambda found: {"small", "large"} <= {m["name"] for m in found["model_stats"]})  # fmt: skip
    await refused("metadata of another", lambda: s.client.get_model_metadata("nobody", **of), "unknown model")
    await refused("metadata without a key", lambda: s.client.get_model_metadata("small"), "API key is needed")


async def repository(s: Stub) -> None:
    """The index; a network is unloaded, refused meanwhile, and loaded again."""
    more = {} if s.http else {"as_json": True}

    def states(found: Any) -> dict[str, str]:
        return {e["name"]: e["state"] for e in (found if s.http else found["models"])}

    def index() -> Any:
        return s.client.get_model_repository_index(headers=s.headers, **more)

    await right("index", index, lambda found: states(found).get("small") == "READY" and len(found) > 0)
    await refused(
        "unload by a tenant", lambda: s.client.unload_model("small", headers=s.headers), "no administrator"
    )
    await right("unload", lambda: s.client.unload_model("small", headers=bearer(ADMIN)), nothing)
    await right("index", index, lambda found: states(found)["small"] == "UNAVAILABLE")
    await right("not ready", lambda: s.client.is_model_ready("small"), lambda ready: ready is False)
    await refused("infer meanwhile", s.infer, "not ready")
    for more in ({"config": "{}"}, {"config": "{}", "files": {"file:1/model.onnx": bytes(100_000)}}):
        load = partial(s.client.load_model, "small", headers=bearer(ADMIN), **more)
        await refused("load with a configuration", load, "a load takes no parameters")
    await right("not ready", lambda: s.client.is_model_ready("small"), lambda ready: ready is False)
    await right("load", lambda: s.client.load_model("small", headers=bearer(ADMIN)), nothing)
    await right("ready", lambda: s.client.is_model_ready("small"))
    await right("infer", s.infer, s.exact)
    await refused(
        "load what is not there",
        lambda: s.client.load_model("nobody", headers=bearer(ADMIN)),
        "unknown model",
    )


async def parameters(s: Stub) -> None:
    """Triton's ``priority`` and ``timeout``, ours, and those of sequences that nobody reads."""
    for more in ({"priority": 1}, {"timeout": 20_000_000}, {"parameters": {"slo_ms": 9000}}, {"sequence_id": 7,
                 "sequence_start": True}, {"parameters": {"anything": "else"}}, {"model_version": "1"}):  # fmt: skip
        await right(str(more), partial(s.infer, **more), s.exact)
    await refused("a timeout shorter than the network", lambda: s.infer(timeout=1), "the network alone takes")
    await refused("a wrong parameter", lambda: s.infer(parameters={"slo_ms": "soon"}), "slo_ms")


async def mistakes(s: Stub) -> None:
    """Wrong requests are told apart, in words."""
    ask, of = s.client.infer, s.headers
    await refused("model", lambda: ask("nobody", [s.tensor()], headers=of), "unknown model 'nobody'")
    await refused("version", lambda: s.infer(model_version="9"), "version")
    await refused("input", lambda: ask("small", [s.tensor("picture")], headers=of), "takes the inputs image")
    await refused("shape", lambda: ask("small", [s.tensor(array=IMAGE[:, :2])], headers=of), "takes [")
    doubles = IMAGE.astype(np.float64)
    await refused(
        "type", lambda: ask("small", [s.tensor("image", doubles, "FP64")], headers=of), "takes FP32"
    )
    output = s.module.InferRequestedOutput("nothing")
    await refused("output", lambda: s.infer(outputs=[output]), "no output 'nothing'")
    await refused("no key", lambda: ask("small", [s.tensor()]), "API key is needed")
    await refused("a made-up key", lambda: ask("small", [s.tensor()], headers=bearer("eun_x")), "not valid")
    await right("infer after all that", s.infer, s.exact)


async def shared_memory(s: Stub) -> None:
    """A region registered, listed, read from and written to; a tenant's alone; forgotten."""
    import tritonclient.utils.shared_memory as shm

    of, key = s.headers, f"/gold:conformance-{os.getpid()}-{CLIENTS.index(s.name)}"
    size, put = IMAGE.nbytes, s.place.answer.nbytes
    region = shm.create_shared_memory_region("both", key, size + put)
    try:
        shm.set_shared_memory_region(region, [IMAGE])
        register, infer = s.client.register_system_shared_memory, s.client.infer
        await right("register", lambda: register("both", key, size + put, headers=of), nothing)
        more = {} if s.http else {"as_json": True}
        await right("status", lambda: s.client.get_system_shared_memory_status(headers=of, **more),
                      lambda found: "both" in str(found))  # fmt: skip
        tensor = s.module.InferInput("image", list(IMAGE.shape), "FP32")
        tensor.set_shared_memory("both", size)
        output = s.module.InferRequestedOutput("logits")
        output.set_shared_memory("both", put, offset=size)
        await right("infer from it", lambda: infer("small", [tensor], headers=of), s.exact)
        bare = lambda found: not s.http or "parameters" not in found.get_response()["outputs"][0]  # noqa: E731
        await right("infer into it", lambda: infer("small", [tensor], outputs=[output], headers=of), bare)
        there = shm.get_contents_as_numpy(region, np.float32, list(s.place.answer.shape), offset=size)
        assert np.array_equal(there, s.place.answer), "the answer stands in the client's memory"
        stranger = bearer(SILVER)
        await refused(
            "another tenant", lambda: infer("small", [tensor], headers=stranger), "no shared memory region"
        )
        beyond = s.module.InferInput("image", list(IMAGE.shape), "FP32")
        beyond.set_shared_memory("both", size, offset=put + 4)
        await refused("beyond its end", lambda: infer("small", [beyond], headers=of), "region|bytes")
        mine = lambda: register("mine", key, size, headers=stranger)  # noqa: E731
        await refused(
            "another tenant's object", mine, "is not tenant 'silver's: call the object '/silver:NAME'"
        )
        await refused("a path", lambda: register("path", "/../etc/passwd", 8, headers=of), "key")
        await right(
            "unregister", lambda: s.client.unregister_system_shared_memory("both", headers=of), nothing
        )
        await refused("afterwards", lambda: infer("small", [tensor], headers=of), "no shared memory region")
        await right("unregister all", lambda: s.client.unregister_system_shared_memory(headers=of), nothing)
    finally:
        shm.destroy_shared_memory_region(region)


async def not_offered(s: Stub) -> None:
    """Calls of Triton's that this server does not have are refused as such."""
    words = "404|Not Found|UNIMPLEMENTED|not found"
    for name in ("get_trace_settings", "get_log_settings"):
        await refused(name, partial(getattr(s.client, name), headers=s.headers), words)


async def device_memory(s: Stub) -> None:
    """None of a GPU's is taken; who asks for none, or forgets what is not there, hears no error, as of Triton."""
    of = {"headers": s.headers}
    status, forget = s.client.get_cuda_shared_memory_status, s.client.unregister_cuda_shared_memory
    register = partial(s.client.register_cuda_shared_memory, "mine", b"aGFuZGxl", 0, 8)
    await right("status", partial(status, **of), lambda found: not getattr(found, "regions", found))
    await right("unregister all", partial(forget, **of), nothing)
    await right("unregister", partial(forget, "mine", **of), nothing)
    await refused(
        "register",
        partial(register, **of),
        "region 'mine' cannot be registered: this server reads no GPU's memory",
    )
    await refused("status of one", partial(status, "mine", **of), "no CUDA shared memory region 'mine'")
    await refused("a stranger", partial(forget, headers=bearer("eun_nobody")), "key is not valid")


async def many(s: Stub) -> None:
    """Requests under way together: each gets its own answer."""
    if "asyncio" in s.name:
        answers = await asyncio.gather(*(done(s.infer(request_id=str(n))) for n in range(MANY)))
    elif s.http:
        ask = partial(s.client.async_infer, "small", [s.tensor()], headers=s.headers)
        answers = [one.get_result() for one in [ask(request_id=str(n)) for n in range(MANY)]]
    else:  # answers come in a thread of the client's own
        answers = []
        for n in range(MANY):
            s.client.async_infer("small", [s.tensor()], lambda result, error: answers.append(error or result),
                                 headers=s.headers, request_id=str(n))  # fmt: skip
        await until_async(lambda: len(answers) == MANY)
    assert all(s.exact(answer) for answer in answers)
    assert sorted(int(s.identity(answer)) for answer in answers) == list(range(MANY))


def served(found: Any) -> int:
    """Requests that the statistics of one network count."""
    return int(found["model_stats"][0].get("inference_count", 0)) if found else -1


def nothing(answer: Any) -> bool:
    """What calls answer that only do something."""
    return answer is None


ROWS: dict[str, Callable[[Stub], Coroutine[Any, Any, None]]] = {
    "tensors, binary and JSON": tensors,
    "packed bodies": compressed,
    "many requests at once": many,
    "health, metadata, configuration, statistics": facts,
    "index, load, unload": repository,
    "priority, timeout and other parameters": parameters,
    "wrong requests": mistakes,
    "system shared memory": shared_memory,
    "calls that are not offered": not_offered,
    "shared memory of devices": device_memory,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("row", ROWS)
def test_a_stock_client(place: Place, row: str, client: str) -> None:
    async def asked() -> None:
        async with stub(client, place) as s:
            await ROWS[row](s)

    asyncio.run(asked())


def test_an_answer_that_is_not_the_networks_fails(place: Place) -> None:
    async def asked() -> None:
        async with stub("gRPC", Place(place.server, place.answer + 1.0)) as s:
            await tensors(s)

    with pytest.raises(AssertionError, match="infer"):
        asyncio.run(asked())
