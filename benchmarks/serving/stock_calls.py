"""What stock clients may ask of a server of the protocol: every call, by each of tritonclient's four clients."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

import numpy as np

from benchmarks.serving.stage import SHAPE
from benchmarks.serving.stock import ADMIN, CLIENTS, Row, Stub, bearer, given, identity
from benchmarks.serving.tally import Tally, done

MANY = 40  # requests at once


async def tensors(s: Stub, t: Tally) -> None:
    """Tensors as bytes and, over HTTP, as JSON, either way; answers bit for bit those of the whole network."""
    await t.right("infer", lambda: s.infer(request_id="a"), lambda r: s.exact(r) and identity(s, r) == "a")
    if not s.http:
        return
    for sent in (True, False):
        for back in (True, False):
            output = s.module.InferRequestedOutput("logits", binary_data=back)
            ask = partial(
                s.client.infer, "small", [s.tensor(binary_data=sent)], headers=s.headers, outputs=[output]
            )
            await t.right(f"binary in {sent}, out {back}", ask, s.exact)


async def compressed(s: Stub, t: Tally) -> None:
    """Bodies that are packed, as the clients offer it."""
    for kind in ("gzip", "deflate"):
        more = {"request_compression_algorithm": kind, "response_compression_algorithm": kind} if s.http else {
            "compression_algorithm": kind}  # fmt: skip
        await t.right(kind, partial(s.infer, **more), s.exact)


async def facts(s: Stub, t: Tally) -> None:
    """Health, metadata, configuration and statistics."""
    more = {} if s.http else {"as_json": True}
    of = {"headers": s.headers, **more}
    for name in ("is_server_live", "is_server_ready"):
        await t.right(name, getattr(s.client, name))
    await t.right("is_model_ready", lambda: s.client.is_model_ready("small"))
    await t.right("is_model_ready, version", lambda: s.client.is_model_ready("small", "1"))
    await t.right(
        "server metadata", lambda: s.client.get_server_metadata(**of), lambda m: m["name"] == "eunomia"
    )
    await t.right(
        "model metadata", lambda: s.client.get_model_metadata("small", **of),
        lambda m: [i["name"] for i in m["inputs"]] == ["image"] and int(m["inputs"][0]["shape"][1]) == 3,
    )  # fmt: skip
    await t.right(
        "configuration", lambda: s.client.get_model_config("small", **of),
        lambda c: [o["name"] for o in c.get("config", c)["output"]] == ["logits"],
    )  # fmt: skip
    before = served(await t.right("statistics", lambda: s.client.get_inference_statistics("small", **of)))
    await t.right("infer", s.infer, s.exact)
    await t.right(
        "statistics after one more", lambda: s.client.get_inference_statistics("small", **of),
        lambda found: served(found) == before + 1,
    )  # fmt: skip
    await t.right("statistics of all", lambda: s.client.get_inference_statistics(**of),
                  lambda found: {"small", "large"} <= {m["name"] for m in found["model_stats"]})  # fmt: skip
    await t.refused(
        "metadata of another", lambda: s.client.get_model_metadata("nobody", **of), "unknown model"
    )
    await t.refused(
        "metadata without a key", lambda: s.client.get_model_metadata("small"), "API key is needed"
    )


async def repository(s: Stub, t: Tally) -> None:
    """The index; a network is unloaded, refused meanwhile, and loaded again."""
    more = {} if s.http else {"as_json": True}

    def states(found: Any) -> dict[str, str]:
        return {e["name"]: e["state"] for e in (found if s.http else found["models"])}

    def index() -> Any:
        return s.client.get_model_repository_index(headers=s.headers, **more)

    await t.right("index", index, lambda found: states(found).get("small") == "READY" and len(found) > 0)
    await t.refused(
        "unload by a tenant", lambda: s.client.unload_model("small", headers=s.headers), "no administrator"
    )
    await t.right("unload", lambda: s.client.unload_model("small", headers=ADMIN), nothing)
    await t.right("index", index, lambda found: states(found)["small"] == "UNAVAILABLE")
    await t.right("not ready", lambda: s.client.is_model_ready("small"), lambda ready: ready is False)
    await t.refused("infer meanwhile", s.infer, "not ready")
    await t.right("load", lambda: s.client.load_model("small", headers=ADMIN), nothing)
    await t.right("ready", lambda: s.client.is_model_ready("small"))
    await t.right("infer", s.infer, s.exact)
    await t.refused(
        "load what is not there", lambda: s.client.load_model("nobody", headers=ADMIN), "unknown model"
    )


async def parameters(s: Stub, t: Tally) -> None:
    """Triton's ``priority`` and ``timeout``, ours, and those of sequences that nobody reads."""
    for more in ({"priority": 1}, {"timeout": 20_000_000}, {"parameters": {"slo_ms": 9000}}, {"sequence_id": 7,
                 "sequence_start": True}, {"parameters": {"anything": "else"}}, {"model_version": "1"}):  # fmt: skip
        await t.right(str(more), partial(s.infer, **more), s.exact)
    await t.refused(
        "a timeout shorter than the network", lambda: s.infer(timeout=1), "the network alone takes"
    )
    await t.refused("a wrong parameter", lambda: s.infer(parameters={"slo_ms": "soon"}), "slo_ms")


async def mistakes(s: Stub, t: Tally) -> None:
    """Wrong requests are told apart, in words."""
    ask, of = s.client.infer, s.headers
    await t.refused("model", lambda: ask("nobody", [s.tensor()], headers=of), "unknown model 'nobody'")
    await t.refused("version", lambda: s.infer(model_version="9"), "version")
    await t.refused(
        "input", lambda: ask("small", [s.tensor("picture")], headers=of), "takes the inputs image"
    )
    await t.refused(
        "shape", lambda: ask("small", [s.tensor(array=s.place.image[:, :2])], headers=of), "takes ["
    )
    doubles = s.place.image.astype(np.float64)
    await t.refused(
        "type", lambda: ask("small", [s.tensor("image", doubles, "FP64")], headers=of), "takes FP32"
    )
    output = s.module.InferRequestedOutput("nothing")
    await t.refused("output", lambda: s.infer(outputs=[output]), "no output 'nothing'")
    await t.refused("no key", lambda: ask("small", [s.tensor()]), "API key is needed")
    await t.refused("a made-up key", lambda: ask("small", [s.tensor()], headers=bearer("eun_x")), "not valid")
    await t.right("infer after all that", s.infer, s.exact)


async def shared_memory(s: Stub, t: Tally) -> None:
    """A region registered, listed, read from and written to; a tenant's alone; forgotten."""
    import tritonclient.utils.shared_memory as shm

    of, key = s.headers, f"/eunomia-conformance-{os.getpid()}-{CLIENTS.index(s.name)}"
    size, put = s.place.image.nbytes, s.place.answer.nbytes
    region = shm.create_shared_memory_region("both", key, size + put)
    try:
        shm.set_shared_memory_region(region, [s.place.image])
        register, infer = s.client.register_system_shared_memory, s.client.infer
        await t.right("register", lambda: register("both", key, size + put, headers=of), nothing)
        more = {} if s.http else {"as_json": True}
        await t.right("status", lambda: s.client.get_system_shared_memory_status(headers=of, **more),
                      lambda found: "both" in str(found))  # fmt: skip
        tensor = s.module.InferInput("image", list(SHAPE), "FP32")
        tensor.set_shared_memory("both", size)
        output = s.module.InferRequestedOutput("logits")
        output.set_shared_memory("both", put, offset=size)
        await t.right("infer from it", lambda: infer("small", [tensor], headers=of), s.exact)
        await t.right("infer into it", lambda: infer("small", [tensor], outputs=[output], headers=of))
        there = shm.get_contents_as_numpy(region, np.float32, list(s.place.answer.shape), offset=size)
        t.demand(np.array_equal(there, s.place.answer), "the answer stands in the client's memory")
        stranger = bearer(s.place.other_key)
        await t.refused(
            "another tenant", lambda: infer("small", [tensor], headers=stranger), "no shared memory region"
        )
        beyond = s.module.InferInput("image", list(SHAPE), "FP32")
        beyond.set_shared_memory("both", size, offset=put + 4)
        await t.refused("beyond its end", lambda: infer("small", [beyond], headers=of), "region|bytes")
        await t.refused("a path", lambda: register("path", "/../etc/passwd", 8, headers=of), "key")
        await t.right(
            "unregister", lambda: s.client.unregister_system_shared_memory("both", headers=of), nothing
        )
        await t.refused("afterwards", lambda: infer("small", [tensor], headers=of), "no shared memory region")
        await t.right("unregister all", lambda: s.client.unregister_system_shared_memory(headers=of), nothing)
    finally:
        shm.destroy_shared_memory_region(region)


async def not_offered(s: Stub, t: Tally) -> None:
    """Calls of Triton's that this server does not have are refused as such."""
    words = "404|Not Found|UNIMPLEMENTED|not found"
    for name in ("get_trace_settings", "get_log_settings", "get_cuda_shared_memory_status"):
        await t.refused(name, partial(getattr(s.client, name), headers=s.headers), words)


async def many(s: Stub, t: Tally) -> None:
    """Requests under way together: each gets its own answer."""
    if "asyncio" in s.name:
        answers = await asyncio.gather(
            *(done(s.infer(request_id=str(n))) for n in range(MANY)), return_exceptions=True
        )
    elif s.http:
        asked = [
            s.client.async_infer("small", [s.tensor()], headers=s.headers, request_id=str(n))
            for n in range(MANY)
        ]
        answers = [answer.get_result() for answer in asked]
    else:
        answers = await called_back(s)
    for n, answer in enumerate(answers):
        await t.right(f"request {n}", partial(given, answer), partial(_answers, s, n))


def _answers(s: Stub, n: int, answer: Any) -> bool:
    return s.exact(answer) and identity(s, answer) == str(n)


async def called_back(s: Stub) -> list[Any]:
    """``async_infer`` of the gRPC client, which answers in a thread of its own."""
    found: dict[int, Any] = {}
    for n in range(MANY):
        s.client.async_infer(
            "small", [s.tensor()], lambda result, error, n=n: found.__setitem__(n, error or result),
            headers=s.headers, request_id=str(n),
        )  # fmt: skip
    for _ in range(6000):
        if len(found) == MANY:
            break
        await asyncio.sleep(0.01)
    return [found.get(n) for n in range(MANY)]


def served(found: Any) -> int:
    """Requests that the statistics of one network count."""
    return int(found["model_stats"][0].get("inference_count", 0)) if found else -1


def nothing(answer: Any) -> bool:
    """What calls answer that only do something."""
    return answer is None


BY_ALL: dict[str, Row] = {
    "tensors, binary and JSON": tensors, "packed bodies": compressed, "many requests at once": many,
    "health, metadata, configuration, statistics": facts, "index, load, unload": repository,
    "priority, timeout and other parameters": parameters, "wrong requests": mistakes,
    "system shared memory": shared_memory, "calls that are not offered": not_offered,
}  # fmt: skip
ROWS: dict[str, dict[str, Row]] = {name: dict.fromkeys(CLIENTS, row) for name, row in BY_ALL.items()}
