"""The far side: an actor that holds a worker, its networks and the tensors of half-done requests."""

from __future__ import annotations

import platform
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.core.atomic import write_bytes
from eunomia.core.caches import cache_home
from eunomia.core.ray_client import Stamp, stamp_here
from eunomia.serving.blocks.optimise import content_key
from eunomia.serving.devices.arena import FLAGS, Arena
from eunomia.serving.devices.memory import keep_freed_memory
from eunomia.serving.devices.messages import Message, pair
from eunomia.serving.devices.ray.packing import moved, size_of
from eunomia.serving.devices.worker import Worker

Files = Mapping[str, Tensor]  # by path below the cache
Reply = tuple[list[Message], Tensor | None]  # messages, and the tensors that they speak of


class Called(Worker):
    """A worker that is called instead of reading a line: what it says is the result."""

    def __init__(self, arena: Arena, cache: str) -> None:
        line, self._far_end = pair()
        super().__init__(line, arena, 0, cache)
        self._inputs_stay = False  # the next order comes into the same place
        self._said = threading.local()
        self.nudged = threading.Event()

    def answer(self, message: Message) -> list[Message]:
        """All that a message brings about."""
        said: list[Message] = []
        self._said.messages = said
        self._answers[message["kind"]](message)
        if message["kind"] == "try":
            self.nudged.clear()
        return said

    def _say(self, message: Message) -> None:
        self._said.messages.append(message)

    def _ordered(self) -> bool:
        return self.nudged.is_set()

    def _load(self, message: Message) -> None:
        self._load_aside(message)

    def _look_ahead(self) -> Message:
        return {"skipped": []}


class DeviceActor:
    """What the relay calls. Orders run one after the other; loads, flags and the watch have threads of their own."""

    def __init__(self, arena_bytes: int) -> None:
        keep_freed_memory()
        self._arena = Arena.create(arena_bytes)
        self._memory = memoryview(self._arena.memory)
        self._cache = cache_here()
        self._worker = Called(self._arena, str(self._cache))

    def stamp(self) -> tuple[Stamp, str]:
        """Version and source of this package here, and the node's name."""
        return stamp_here(), platform.node()

    def watch(self) -> None:
        """Returns never: fails when the actor dies."""
        threading.Event().wait()

    def flags(self, stop: int, skip: int) -> None:
        """Runs up to ``stop`` end at their next boundary, ``skip`` is not started; 0 = no change."""
        if stop:
            self._arena.stop(0, stop)
        if skip:
            self._arena.skip(0, skip)

    def nudge(self) -> None:
        """A trial of sizes makes room."""
        self._worker.nudged.set()

    def load(self, message: Message, key: str, files: Files) -> list[Message]:
        """Files into the cache, then the network from them."""
        for name, content in files.items():
            path = self._cache / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(path, content.tobytes())
        path = self._cache / message["path"]
        if message["backend"] == "cpu" and content_key(path) != key:
            why = f"node {platform.node()} has another processor or ONNX Runtime than the server: blocks would differ"
            return [{"kind": "refused", "model": message["model"], "why": why}]
        return self._worker.answer({**message, "path": str(path)})

    def order(self, message: Message, packed: Tensor | None) -> Reply:
        """One message with the tensors that it brings; offsets count from 0 both ways."""
        room = FLAGS
        if packed is not None:
            self._memory[FLAGS : FLAGS + packed.nbytes] = packed.data
            room += -(-packed.nbytes // 64) * 64
            message = {**message, "inputs": [moved(one, FLAGS) for one in message["inputs"]]}
        if "room" in message:
            message = {**message, "room": [room, message["room"][1]]}
        said = self._worker.answer(message)
        for one in said:
            if one.get("tensors"):
                size = max(t["offset"] + size_of(t) for t in one["tensors"]) - room
                one["tensors"] = moved(one["tensors"], -room)
                return said, np.frombuffer(self._memory, np.uint8, size, room).copy()
        return said, None


def cache_here() -> Path:
    """Of this user on this node; a new one where that cannot be written."""
    folder = cache_home() / "eunomia" / "ray"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"eunomia-{time.time_ns()}-"))
