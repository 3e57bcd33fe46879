"""The near side of a device on Ray: a process beside the server that speaks as a worker and calls the actor.

Started as ``python -m eunomia.serving.devices.ray.relay LINE ARENA DEVICE CORES SPIN_S MEMORY CACHE KIND ADDRESS
RESOURCE``. The server itself never imports Ray. When the actor or its node dies, this process says so and ends; the
server then starts another one, as for any worker that dies, and so the device finds a node that lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.ray_client import connect, stamp_here
from eunomia.serving.blocks.external import outside_file, weight_files
from eunomia.serving.blocks.optimise import content_key
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.cutting import kept
from eunomia.serving.devices.messages import Message, receive, send
from eunomia.serving.devices.prepare import prepare_aside
from eunomia.serving.devices.ray.actor import DeviceActor, Files, Reply
from eunomia.serving.devices.ray.clocks import Clocks
from eunomia.serving.devices.ray.packing import moved, pack

HIRE_S = 60.0  # so long a node may take to start the actor, or another device to give the resource back
GROUPS = {"watch": 1, "control": 1, "load": 1}
Actor = Any  # Ray makes the methods of its handles at run time
ONE_GPU = ("cuda", "tensorrt")
RAYS_OWN = ("CPU", "GPU")


class Relay:
    """Messages there, answers back, in the order of the orders."""

    def __init__(self, line: socket.socket, arena: Arena, cache: str, actor: Actor) -> None:
        self._line, self._cache, self._actor = line, cache, actor
        self._memory = memoryview(arena.memory)
        self._orders: asyncio.Queue[tuple[Message, Awaitable[Reply], float]] = asyncio.Queue()
        self._clocks, self._trying = Clocks(), 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Until the front end is gone or says stop, or the actor is lost."""
        self._over: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._line.fileno(), self._readable)
        self._spawn(self._answer())
        self._spawn(self._watch())
        send(self._line, {"kind": "ready"})
        lost = await self._over
        if lost is not None:
            send(self._line, lost)

    def _readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while not self._over.done():
                message = receive(self._line, wait=False)
                if message is None or message["kind"] == "stop":
                    self._over.set_result(None)
                    return
                self._pass_on(message)

    def _pass_on(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "flags":
            self._actor.flags.options(concurrency_group="control").remote(message["stop"], message["skip"])
        elif kind == "load":
            self._spawn(self._load(message))
        else:
            if self._trying and kind == "run":
                self._actor.nudge.options(concurrency_group="control").remote()
            self._trying += kind == "try"
            order, packed, began_s = message, None, time.monotonic()
            if message.get("inputs"):
                places, packed = pack(self._memory, message["inputs"])
                order = {**message, "inputs": places}
            self._orders.put_nowait((message, self._actor.order.remote(order, packed), began_s))

    async def _answer(self) -> None:
        while True:
            message, reply, began_s = await self._orders.get()
            said, packed = await reply
            self._trying -= message["kind"] == "try"
            for one in said:
                if packed is not None and one.get("tensors"):
                    start, room = message["room"]
                    size = min(packed.nbytes, room)
                    self._memory[start : start + size] = packed.data[:size]
                    one["tensors"] = moved(one["tensors"], start)
                if "span_s" in one:
                    self._clocks.set_here(one, began_s, time.monotonic())
                send(self._line, one)

    async def _load(self, message: Message) -> None:
        try:
            path, key, files = await asyncio.to_thread(files_of, message, self._cache)
        except EunomiaError as error:
            send(self._line, {"kind": "refused", "model": message["model"], "why": str(error)})
            return
        load = self._actor.load.options(concurrency_group="load")
        for said in await load.remote({**message, "path": path}, key, files):
            send(self._line, said)

    async def _watch(self) -> None:
        await self._actor.watch.options(concurrency_group="watch").remote()

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._over.done():
            self._over.set_result(lost_by(error))


def lost_by(error: BaseException) -> Message:
    """The message to the front end. Blamed on what ran is only the death of the actor alone, on a node that lives."""
    text = " ".join(str(error).split())
    alone = isinstance(error, ActorDiedError) and "node has died" not in text and "node died" not in text
    why = "its actor died" if alone else "its node is gone or out of reach"
    if not isinstance(error, RayError) or isinstance(error, RayTaskError):
        alone, why = True, "its actor failed"
    return {"kind": "lost", "why": f"{why}: {text[:300]}", "blame": alone}


def files_of(message: Message, cache: str) -> tuple[str, str, Files]:
    """Path of a network below the far cache, its key, and all files that it takes there, its blocks included."""
    source = Path(message["path"])
    key = content_key(source)
    names = {file: f"sources/{key}/{file.relative_to(source.parent)}" for file in weight_files(source)}
    names[source] = f"sources/{key}/{source.name}"
    if message["backend"] == "cpu":
        prepare_aside(str(source), cache, message["shapes"], message["target_s"])
        if (cut := kept(str(source), cache, message["shapes"], message["target_s"])) is not None:
            inside = [cut.whole, outside_file(cut.whole), *cut.folder.iterdir()]
            names |= {file: str(file.relative_to(cache)) for file in inside if file.exists()}
    return names[source], key, {name: np.fromfile(file, np.uint8) for file, name in names.items()}


def hire(address: str, resource: str, kind: str, arena_bytes: int) -> Actor:
    """An actor on a node that has the resource. Raises ConfigError."""
    connect(address)
    asked: dict[str, float] = {"CPU": 1.0}
    if resource:
        asked[resource] = 1.0
    if kind in ONE_GPU:
        asked["GPU"] = 1.0
    somebody_must_have(ray.nodes(), asked, address)  # type: ignore[no-untyped-call]
    declare: Actor = ray.remote
    wanting = declare(
        num_cpus=1,
        num_gpus=int("GPU" in asked),
        max_restarts=0,
        concurrency_groups=GROUPS,
        resources={name: 1 for name in asked if name not in RAYS_OWN},
    )
    actor = wanting(DeviceActor).remote(arena_bytes)
    try:
        theirs, node = ray.get(actor.stamp.remote(), timeout=HIRE_S)
    except GetTimeoutError:
        raise ConfigError(
            f"no node of the Ray cluster '{address}' had {in_words(asked)} to spare for {HIRE_S:.0f} s: "
            "end who holds it, or list fewer devices"
        ) from None
    except RayError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ConfigError(
            f"its actor cannot start, is eunomia installed on every node? {lines[-1]}"
        ) from None
    if theirs != stamp_here():
        raise ConfigError(f"node {node} has eunomia {theirs}; install {stamp_here()} on every node")
    return actor


def somebody_must_have(nodes: list[Data], asked: Mapping[str, float], address: str) -> None:
    """Raise ConfigError if no living node has all that the actor asks for, which Ray would wait for for ever."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    if any(all(has.get(name, 0.0) >= least for name, least in asked.items()) for has in alive):
        return
    own = {name: 1 for name in asked if name not in RAYS_OWN}
    options = [f"--resources='{json.dumps(own)}'"] * bool(own) + ["--num-gpus=1"] * ("GPU" in asked)
    raise ConfigError(
        f"no node of the Ray cluster '{address}' has {in_words(asked)}: start one by "
        f"{' '.join(['ray start --address=HOST:PORT', *options])}"
    )


def in_words(asked: Mapping[str, float]) -> str:
    """What an actor needs of its node."""
    own = [f"the resource '{name}'" for name in asked if name not in RAYS_OWN]
    return " and ".join([*own, *["a GPU"] * ("GPU" in asked), "a CPU"])


def main(arguments: list[str]) -> None:
    """Entry point of the process."""
    line, arena, _, _, _, _, cache, kind, address, resource = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the front end's business; it ends this line
    near, seen = socket.socket(fileno=int(line)), Arena.attach(int(arena))
    with contextlib.suppress(BrokenPipeError):
        try:
            actor = hire(address, resource, kind, 2 * seen.size)
        except EunomiaError as error:
            send(near, {"kind": "unable", "why": str(error)})
            return
        asyncio.run(Relay(near, seen, cache, actor).serve())
        near.close()
        ray.kill(actor)
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
