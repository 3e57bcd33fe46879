"""The process of one device: runs blocks, and looks at one byte between them.

Started as ``python -m eunomia.serving.devices.worker LINE ARENA DEVICE CORES CACHE``; the first two are
inherited file descriptors. It never opens a network connection and ends when its line ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.messages import Message, array_at, pair, place, receive, send
from eunomia.serving.devices.network import LoadedNetwork, load_network

__all__ = ["Worker", "main", "pair"]


class Worker:
    """Networks and half-done requests of one device."""

    def __init__(self, line: socket.socket, arena: Arena, device: int, cache: str) -> None:
        self._line, self._arena, self._device, self._cache = line, arena, device, cache
        self._memory = memoryview(arena.memory)
        self._networks: dict[str, LoadedNetwork] = {}
        self._live: dict[
            int, dict[str, npt.NDArray[Any]]
        ] = {}  # tensors alive at the request's block boundary
        self._answers: dict[str, Any] = {
            "load": self._load, "unload": self._unload, "run": self._run, "fetch": self._fetch,
            "forget": self._forget,
        }  # fmt: skip

    def serve(self) -> None:
        """Answer messages until told to stop or until the front end is gone."""
        send(self._line, {"kind": "ready"})
        while (message := receive(self._line)) is not None and message["kind"] != "stop":
            self._answers[message["kind"]](message)

    def _load(self, message: Message) -> None:
        name = message["model"]
        try:
            network = load_network(message["path"], self._cache, message["shapes"], message["target_s"])
        except Exception as error:  # whatever a strange file provokes is the file's fault, and is reported
            send(self._line, {"kind": "refused", "model": name, "why": _sentence(error)})
            return
        self._networks[name] = network
        send(self._line, {"kind": "loaded", "model": name, **network.description()})

    def _unload(self, message: Message) -> None:
        self._networks.pop(message["model"], None)

    def _run(self, message: Message) -> None:
        """Blocks ``first`` up to ``last``, unless asked to stop between two of them."""
        request, network = message["request"], self._networks.get(message["model"])
        try:
            if network is None:
                raise KeyError(f"network '{message['model']}' is not loaded here")
            live = self._live.pop(request, None)
            if message["inputs"] is not None:
                live = self._together(message["inputs"])
                if (
                    message["first"] > 0
                ):  # of another device: this piece of the arena is given back before they die
                    live = {name: array.copy() for name, array in live.items()}
            if live is None:
                raise KeyError("its tensors are not on this device")
            seconds: list[float] = []
            n = message["first"]
            while n < message["last"]:
                began = time.perf_counter()
                live = network.run_block(n, live)
                seconds.append(time.perf_counter() - began)
                n += 1
                if self._arena.stopped(self._device):
                    break
        except Exception as error:  # a network may fail in any way; only its own request fails with it
            send(self._line, {"kind": "failed", "request": request, "why": _sentence(error)})
            return
        self._live[request] = live
        self._hand_over(
            {"request": request, "next": n, "seconds": seconds}, n == network.blocks, message["room"]
        )

    def _together(self, members: list[list[Message]]) -> dict[str, npt.NDArray[Any]]:
        """Inputs of one request, or of several as one batch."""
        if len(members) == 1:
            return {t["name"]: array_at(self._memory, t) for t in members[0]}
        rows: dict[str, list[npt.NDArray[Any]]] = {}
        for tensors in members:
            for t in tensors:
                rows.setdefault(t["name"], []).append(array_at(self._memory, t))
        return {name: np.concatenate(arrays) for name, arrays in rows.items()}

    def _fetch(self, message: Message) -> None:
        """Tensors of a request that waits between two blocks, for another device or in a larger room."""
        self._hand_over(
            {"request": message["request"], "next": message["next"], "seconds": []}, True, message["room"]
        )

    def _forget(self, message: Message) -> None:
        self._live.pop(message["request"], None)

    def _hand_over(self, done: Message, tensors: bool, room: list[int]) -> None:
        """Report, with the tensors in the arena if they are asked for and fit into ``room``."""
        message: Message = {"kind": "done", **done, "tensors": None, "bytes": 0}
        if tensors:
            arrays = [(name, np.ascontiguousarray(a)) for name, a in self._live[done["request"]].items()]
            placed, end = place(arrays, room[0])
            message["bytes"] = end - room[0]
            if message["bytes"] <= room[1]:
                for (_, array), tensor in zip(arrays, placed, strict=True):
                    array_at(self._memory, tensor)[...] = array
                message["tensors"] = placed
                del self._live[done["request"]]
        send(self._line, message)


def _sentence(error: Exception) -> str:
    """The first line of an error, short."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:500]


def main(arguments: list[str]) -> None:
    """Entry point of the process."""
    line, arena, device, cores, cache = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the front end's business; it ends this line
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    worker = Worker(socket.socket(fileno=int(line)), Arena.attach(int(arena)), int(device), cache)
    with contextlib.suppress(BrokenPipeError):  # the front end is gone, and with it whoever waited
        worker.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
