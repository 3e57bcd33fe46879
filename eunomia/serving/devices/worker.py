"""The process of one device: runs blocks, and looks at one number between them.

Started as ``python -m eunomia.serving.devices.worker LINE ARENA DEVICE CORES SPIN_S CACHE``; the first two are
inherited file descriptors. It never opens a network connection and ends when its line ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.backends import loader_of
from eunomia.serving.devices.memory import keep_freed_memory, set_aside
from eunomia.serving.devices.messages import Message, Placed, array_at, pair, place, receive, send
from eunomia.serving.devices.network import LoadedNetwork
from eunomia.serving.devices.piece import Live, live_of

__all__ = ["Worker", "main", "pair"]


class Worker:
    """Networks and half-done requests of one device."""

    def __init__(
        self, line: socket.socket, arena: Arena, device: int, cache: str, spin_s: float = 0.0
    ) -> None:
        self._line, self._arena, self._device, self._cache = line, arena, device, cache
        self._spin_s = spin_s
        self._memory = memoryview(arena.memory)
        self._networks: dict[str, LoadedNetwork] = {}
        self._live: dict[int, Live] = {}  # tensors alive at the request's block boundary
        self._next: Message | None = None  # read while looking what follows a run
        self._answers: dict[str, Callable[[Message], None]] = {
            "load": self._load,
            "unload": self._unload,
            "run": self._run,
            "fetch": self._fetch,
            "forget": self._forget,
        }

    def serve(self) -> None:
        """Answer messages until told to stop or until the front end is gone."""
        send(self._line, {"kind": "ready"})
        while (message := self._receive()) is not None and message["kind"] != "stop":
            self._answers[message["kind"]](message)

    def _receive(self) -> Message | None:
        """The next message; looks often for a short while before it sleeps."""
        if self._next is not None:
            message, self._next = self._next, None
            return message
        until = time.perf_counter() + self._spin_s
        while time.perf_counter() < until:
            with contextlib.suppress(BlockingIOError):
                return receive(self._line, wait=False)
        return receive(self._line)

    def _load(self, message: Message) -> None:
        name = message["model"]
        try:
            network = loader_of(message["backend"])(
                message["path"], self._cache, message["shapes"], message["target_s"], message["whole_s"]
            )
        except Exception as error:  # whatever a strange file provokes is the file's fault, and is reported
            send(self._line, {"kind": "refused", "model": name, "why": _sentence(error)})
            return
        self._networks[name] = network
        set_aside()
        send(self._line, {"kind": "loaded", "model": name, **network.description()})

    def _unload(self, message: Message) -> None:
        self._networks.pop(message["model"], None)

    def _run(self, message: Message) -> None:
        """Blocks ``first`` up to ``last``, unless it must stop between two of them."""
        request, ticket = message["request"], message["ticket"]
        if not message.get("begun") and self._arena.skipped(self._device, ticket):
            send(self._line, {"kind": "skipped", "ticket": ticket})
            return
        try:
            network = self._networks.get(message["model"])
            if network is None:
                raise KeyError(f"network '{message['model']}' is not loaded here")
            began_s = time.monotonic()
            live = self._begin(message)
            n, ends_s = message["first"], [time.monotonic()]
            if message["whole"] and network.has_whole:
                live = network.run_whole(live)
                n, ends_s = network.blocks, network.spread(ends_s[0], time.monotonic())
            while n < message["last"]:
                live = network.run_block(n, live)
                ends_s.append(time.monotonic())
                n += 1
                if self._arena.stopped(self._device, ticket):
                    break
        except Exception as error:  # a network may fail in any way; only its own request fails with it
            why = _sentence(error)
            send(self._line, {"kind": "failed", "ticket": ticket, "why": why, **self._look_ahead()})
            return
        self._live[request] = live
        done = {"kind": "done", "ticket": ticket, "next": n, "ends_s": ends_s}
        if n == network.blocks:
            done.update(self._hand_over(request, message["room"]))
        done["span_s"] = [began_s, time.monotonic()]
        send(self._line, done | self._look_ahead())

    def _begin(self, message: Message) -> Live:
        """The tensors to start from; raises KeyError."""
        kept = self._live.pop(message["request"], None)
        if message["inputs"] is None:
            if kept is None:
                raise KeyError("its tensors are not on this device")
            return kept
        arrays = self._together(message["inputs"])
        if message["first"] > 0:  # of another device: this piece of the arena is given back before they die
            arrays = {name: array.copy() for name, array in arrays.items()}
        return live_of(arrays)

    def _look_ahead(self) -> Message:
        """Read what follows, so that it starts at once; which queued runs are not started any more."""
        skipped: list[int] = []
        with contextlib.suppress(BlockingIOError):
            while self._next is None and (message := receive(self._line, wait=False)) is not None:
                if message["kind"] == "run" and self._arena.skipped(self._device, message["ticket"]):
                    skipped.append(message["ticket"])
                    continue
                self._next = message
                message["begun"] = True
        return {"skipped": skipped}

    def _together(self, members: list[list[Placed]]) -> dict[str, Tensor]:
        """Inputs of one request, or of several as one batch."""
        if len(members) == 1:
            return {t["name"]: array_at(self._memory, t) for t in members[0]}
        rows: dict[str, list[Tensor]] = {}
        for tensors in members:
            for t in tensors:
                rows.setdefault(t["name"], []).append(array_at(self._memory, t))
        return {name: np.concatenate(arrays) for name, arrays in rows.items()}

    def _fetch(self, message: Message) -> None:
        """Tensors of a request that waits between two blocks, for another device or in a larger room."""
        request = message["request"]
        answer = {"kind": "tensors", "request": request, **self._hand_over(request, message["room"])}
        send(self._line, answer)

    def _forget(self, message: Message) -> None:
        self._live.pop(message["request"], None)

    def _hand_over(self, request: int, room: list[int]) -> Message:
        """Put a request's tensors into ``room`` if they fit; says how many bytes they are."""
        live = self._live.get(request)
        if live is None:
            return {"tensors": None, "bytes": 0}
        arrays = [(name, value.numpy()) for name, value in live.items()]
        placed, end = place(arrays, room[0])
        size = end - room[0]
        if size > room[1]:
            return {"tensors": None, "bytes": size}
        for (_, array), tensor in zip(arrays, placed, strict=True):
            array_at(self._memory, tensor)[...] = array
        del self._live[request]
        return {"tensors": placed, "bytes": size}


def _sentence(error: Exception) -> str:
    """The first line of an error, short."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:500]


def main(arguments: list[str]) -> None:
    """Entry point of the process."""
    line, arena, device, cores, spin_s, cache = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the front end's business; it ends this line
    keep_freed_memory()
    own = {int(core) for core in cores.split(",")} if cores else set()
    spins = False  # only where the front end has a core that this device does not burn
    if own and hasattr(os, "sched_setaffinity"):
        spins = bool(os.sched_getaffinity(0) - own)
        os.sched_setaffinity(0, own)
    worker = Worker(
        socket.socket(fileno=int(line)),
        Arena.attach(int(arena)),
        int(device),
        cache,
        float(spin_s) if spins else 0.0,
    )
    with contextlib.suppress(BrokenPipeError):  # the front end is gone, and with it whoever waited
        worker.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
