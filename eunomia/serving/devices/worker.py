"""The process of one device: runs blocks, and looks at one number between them.

Started as ``python -m eunomia.serving.devices.worker LINE ARENA DEVICE CORES SPIN_S MEMORY CACHE ASIDE``; the first two
and the last, a pipe, are inherited file descriptors. It opens no network connection, and ends when its line ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.core.atomic import clear_output_errors
from eunomia.core.workers import leave_signals_to_the_server
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.blocks.refusal import said
from eunomia.serving.devices import aside
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.backends import loader_of
from eunomia.serving.devices.cutting import told
from eunomia.serving.devices.ending import Ending
from eunomia.serving.devices.memory import (
    bound_memory,
    keep_freed_memory,
    no_room,
    out_of_memory,
    see_what_is_left,
    set_aside,
    too_little,
    within_what_is_free,
)
from eunomia.serving.devices.messages import Message, Placed, array_at, pair, place, receive, send, value_at
from eunomia.serving.devices.network import LoadedNetwork, short_blocks
from eunomia.serving.devices.objection import Objection
from eunomia.serving.devices.piece import Live, array_of, live_of
from eunomia.serving.devices.prepare import prepare_aside
from eunomia.serving.devices.priority import come_last
from eunomia.serving.devices.rows import told_of_rows
from eunomia.serving.devices.step import Step
from eunomia.serving.devices.strings import OBJECTS, Strings

__all__ = ["Worker", "main", "pair"]
LOST: Message = {"tensors": None, "bytes": 0}


class Worker:
    """Networks and half-done requests of one device."""

    def __init__(
        self, line: socket.socket, arena: Arena, device: int, cache: str, spin_s: float = 0.0
    ) -> None:
        self._line, self._arena, self._device, self._cache = line, arena, device, cache
        self._spin_s, self.most_bytes = spin_s, 0  # of memory; 0 = any
        self._memory = memoryview(arena.memory)
        self._networks: dict[str, LoadedNetwork] = {}
        self._live: dict[int, Live] = {}  # tensors alive at the request's block boundary
        self._inputs_stay = True  # where they lie, until their request has its answer
        self._step: tuple[object, Step] | None = None  # which, and how far a trial of sizes has come
        self._next: Message | None = None  # read while looking what follows a run
        self.ending = Ending()
        self._answers: dict[str, Callable[[Message], None]] = {
            "load": self._load,
            "unload": self._unload,
            "run": self._run,
            "fetch": self._fetch,
            "forget": self._forget,
            "try": self._try,
        }

    def serve(self) -> None:
        """Answer messages until told to stop or until the front end is gone."""
        self._say({"kind": "ready"})
        while (message := self._receive()) is not None and message["kind"] != "stop":
            self._answers[message["kind"]](message)

    def obey_aside(self, pipe: int) -> None:
        """What does not wait for the run that this device works on."""
        aside.listen(pipe, {aside.END: self._end, aside.FETCH: self._give})

    def _end(self, number: int, *_: int) -> None:
        if self.ending.end(number):
            self._arena.hears(self._device, number)

    def _say(self, message: Message) -> None:
        """To the front end."""
        send(self._line, message)

    def _ordered(self) -> bool:
        """Whether something waits for this device."""
        return bool(select.select([self._line], [], [], 0.0)[0])

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
        """In a thread of its own: the runtime leaves the interpreter to others while it optimises and runs."""
        threading.Thread(target=self._load_aside, args=(message,), daemon=True).start()

    def _load_aside(self, message: Message) -> None:
        name = message["model"]
        if message.get("polite"):
            come_last()
        place = message["path"], self._cache, message["shapes"], message["target_s"]
        known = {name: message[name] for name in ("known_s", "key") if name in message}
        try:
            key, most_s = known.get("key", ""), message.get("most_s", 0.0)
            if message["backend"] == "cpu" and (self._networks or most_s):  # others may be in use
                prepare_aside(*place, key, most_s)
            if most_s:
                known["known_s"] = short_blocks(*place, most_s, key)
            alone = message["backend"] == "cpu" and not (self._networks or known.get("known_s"))  # and is new
            with full_disk_named(Path(self._cache)), within_what_is_free(self.most_bytes * alone):
                network = loader_of(message["backend"])(*place, message["whole_s"], **known)
            if most_s and (longest_s := max(network.block_s)) > most_s:
                text = "its blocks do not load with such inputs, and the whole is too long"
                raise LongBlock(text, longest_s)
        except Exception as error:  # whatever a strange file provokes is the file's fault, and is reported
            self._say({"kind": "refused", "model": name, "why": _sentence(error), **told(error)})
            return
        found = told_of_rows(network, message)
        network.obey(self.ending.options)
        self._networks[name] = network
        set_aside()
        self._say({"kind": "loaded", "model": name, **network.description(), **found})

    def _unload(self, message: Message) -> None:
        self._networks.pop(message["model"], None)

    def _run(self, message: Message) -> None:
        """Blocks ``first`` up to ``last``, unless it must stop between two of them."""
        ticket = message["ticket"]
        if not message.get("begun") and self._arena.skipped(self._device, ticket):
            self._say({"kind": "skipped", "ticket": ticket})
            return
        began_s, network = time.monotonic(), self._networks.get(message["model"])
        clock = time.thread_time if network is None else network.clock
        before_s = clock()
        self.ending.begin(ticket)
        try:
            if network is None:
                raise KeyError(f"network '{message['model']}' is not loaded here")
            done = self._run_bound(network, message) or self._run_blocks(network, message)
            self.ending.over()
        except Exception as error:  # a network may fail in any way; only its own request fails with it
            self.ending.over()
            failed = {"why": _sentence(error), **kind_of(error)}
            failed |= {"span_s": [began_s, time.monotonic()], "own_s": clock() - before_s}
            failed |= self._look_ahead()
            self._say({"kind": "failed", "ticket": ticket, **failed})
            return
        if done["next"] == network.blocks and "tensors" not in done:
            done.update(self._hand_over(message["request"], message["room"]))
        done |= {"span_s": [began_s, time.monotonic()], "own_s": clock() - before_s}
        self._say({"kind": "done", "ticket": ticket, **done, **self._look_ahead()})

    def _run_bound(self, network: LoadedNetwork, message: Message) -> Message | None:
        """One request from end to end without a boundary, in its place; None where that is not what is asked."""
        uncut = message["whole"] or network.blocks == 1
        if network.bound is None or not uncut or not message["inputs"] or len(message["inputs"]) > 1:
            return None
        began_s = time.monotonic()
        tensors = network.bound.run(self._memory, message["inputs"][0], message["room"])
        if tensors is None:
            return None
        ends_s = network.spread(began_s, time.monotonic())
        return {"next": network.blocks, "ends_s": ends_s, "tensors": tensors}

    def _run_blocks(self, network: LoadedNetwork, message: Message) -> Message:
        """Block by block, or the whole; the tensors stay with the request."""
        live = self._begin(message)
        n, ends_s = message["first"], [time.monotonic()]
        if message["whole"] and network.has_whole:
            live = network.run_whole(live)
            n, ends_s = network.blocks, network.spread(ends_s[0], time.monotonic())
        while n < message["last"]:
            live = network.run_block(n, live)
            ends_s.append(time.monotonic())
            n += 1
            if self._arena.stopped(self._device, message["ticket"]):
                break
        self._live[message["request"]] = live
        return {"next": n, "ends_s": ends_s}

    def _begin(self, message: Message) -> Live:
        """The tensors to start from; raises KeyError."""
        kept = self._live.pop(message["request"], None)
        if message["inputs"] is None:
            if kept is None:
                raise KeyError("its tensors are not on this device")
            return kept
        arrays = self._together(message["inputs"])
        if (
            message["first"] > 0 or not self._inputs_stay
        ):  # of another device: this piece of the arena is given back before they die
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
            return {t["name"]: self._array(t) for t in members[0]}
        rows: dict[str, list[Tensor]] = {}
        for tensors in members:
            for t in tensors:
                rows.setdefault(t["name"], []).append(self._array(t))
        return {name: np.concatenate(arrays) for name, arrays in rows.items()}

    def _array(self, tensor: Placed) -> Tensor:
        """An input: where it lies, or its texts."""
        value = value_at(self._memory, tensor)
        return value.numpy() if isinstance(value, Strings) else value

    def _fetch(self, message: Message) -> None:
        """Tensors of a request that waits between two blocks, for another device or in a larger room."""
        self._give(message["request"], *message["room"])

    def _give(self, request: int, offset: int, size: int) -> None:
        """The same in any thread: nothing runs of a request that waits."""
        try:
            given = self._hand_over(request, [offset, size])
        except Exception:  # texts may need memory that is not there: only this request fails
            self._live.pop(request, None)
            given = LOST
        self._say({"kind": "tensors", "request": request, **given})

    def _try(self, message: Message) -> None:
        """An input of these sizes, made up; whatever else is ordered goes first, but for ``one`` block."""
        answer: Message = {
            "kind": "tried",
            "number": message["number"],
            "why": "",
            "seconds": [],
            "spent": 0.0,
        }
        self.ending.begin(-message["number"])
        try:
            step = self._step_of(message)
            one = message["one"]
            while not step.over and (one or not self._ordered()):
                answer["spent"] += step.next()
                one = False
            if step.over:
                answer["seconds"], self._step = step.seconds, None
        except Exception as error:  # as with a request
            answer["why"], self._step = _sentence(error), None
        finally:
            self.ending.over()
        self._say(answer)

    def _step_of(self, message: Message) -> Step:
        """The one that was interrupted, or a new one."""
        key = (message["model"], message["shapes"])
        if self._step is None or self._step[0] != key:
            network = self._networks.get(message["model"])
            if network is None:
                raise KeyError("the network is not loaded here")
            self._step = key, Step(network, message["shapes"])
        return self._step[1]

    def _forget(self, message: Message) -> None:
        self._live.pop(message["request"], None)

    def _hand_over(self, request: int, room: list[int]) -> Message:
        """Put a request's tensors into ``room`` if they fit; says how many bytes they are."""
        live = self._live.get(request)
        if live is None:
            return LOST
        arrays = [(name, array_of(value)) for name, value in live.items()]
        values = [(name, Strings.of(array) if array.dtype == OBJECTS else array) for name, array in arrays]
        placed, end = place(values, room[0])
        size = end - room[0]
        if size > room[1]:
            return {"tensors": None, "bytes": size}
        for (_, value), tensor in zip(values, placed, strict=True):
            target = array_at(self._memory, tensor)
            if isinstance(value, Strings):
                value.read_into(target)
            else:
                target[...] = value
        if self._live.get(request) is live:  # else its client has left meanwhile, or it has begun anew here
            self._live.pop(request, None)
        return {"tensors": placed, "bytes": size}


@contextlib.contextmanager
def full_disk_named(cache: Path) -> Iterator[None]:
    """An OSError for lack of room says where, and what to do; others, of files that are read, stay."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        with clear_output_errors(cache):
            raise


def kind_of(error: Exception) -> Message:
    """Whether it lacked memory, or else the runtime refused the input."""
    memory = out_of_memory(error) is not None
    return {"memory": memory, "input": isinstance(error, Objection) and not memory}


def _sentence(error: Exception) -> str:
    """The first line of an error, short."""
    if (bound := out_of_memory(error)) is not None:
        return no_room(bound)
    if isinstance(error, Objection):
        return said(str(error))
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:800]


def main(arguments: list[str]) -> None:
    """Entry point of the process."""
    line, arena, device, cores, spin_s, memory, cache, pipe = arguments
    leave_signals_to_the_server()
    near = socket.socket(fileno=int(line))
    keep_freed_memory()
    own = {int(core) for core in cores.split(",")} if cores else set()
    spins = False  # only where the front end has a core that this device does not burn
    if own and hasattr(os, "sched_setaffinity"):
        spins = bool(os.sched_getaffinity(0) - own)
        os.sched_setaffinity(0, own)
    worker = Worker(near, Arena.attach(int(arena)), int(device), cache, float(spin_s) if spins else 0.0)
    with contextlib.suppress(BrokenPipeError):  # the front end is gone, and with it whoever waited
        try:
            bound_memory(int(memory))
            worker.most_bytes = int(memory)
            worker.obey_aside(int(pipe))
            see_what_is_left()
        except (MemoryError, OSError, RuntimeError):  # the last where a thread finds no room
            send(near, {"kind": "unable", "why": too_little(int(memory) // 2**20)})
            return
        worker.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
