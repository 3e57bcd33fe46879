"""Clients of one device side by side on the real clock: what each did in each window, with a token or without."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eunomia.core.errors import EunomiaError
from eunomia.sharing.shares.desk import Desk
from eunomia.sharing.shares.front import Front
from eunomia.sharing.shares.program import PYTHONPATH, Program, must_be_supported
from eunomia.sharing.shares.scheduler import ShareRules, ShareScheduler
from eunomia.sharing.shares.simulate import Hold
from eunomia.sharing.shares.spec import ShareSpec
from eunomia.sharing.shares.token import CLIENT, SOCKET
from eunomia.sharing.shares.warden import Warden

SETTLE_S = 0.3  # after the first iteration of the last client
STRESS = (sys.executable, "-m", "eunomia.sharing.shares.stress")


@dataclass(frozen=True)
class Client:
    """A promise and the command line that it is made to. ``takes_token``: the program asks by itself.

    ``idle``: a spell (from, to) in seconds without work; for commands that understand ``--idle``.
    """

    spec: ShareSpec
    command: tuple[str, ...]
    takes_token: bool = False
    idle: tuple[float, float] | None = None

    @property
    def words(self) -> list[str]:
        """What is started."""
        spell = [] if self.idle is None else ["--idle", f"{self.idle[0]}..{self.idle[1]}"]
        return [*self.command, *spell]


@dataclass(frozen=True)
class Setting:
    """``rules``: of the token; None = no token. ``core``: where clients run; None = anywhere.

    ``pattern``: where an output line holds the running count. ``start_s``: patience with clients that start.
    """

    seconds: float = 60.0
    window_s: float = 5.0
    core: int | None = None
    rules: ShareRules | None = None
    pattern: re.Pattern[str] | None = None
    start_s: float = 120.0


@dataclass
class Observed:
    """Per finished window and client: iterations, processor seconds, seconds away. Times by the monotonic clock."""

    names: tuple[str, ...]
    edges_s: list[float] = field(default_factory=list)
    counts: list[list[int]] = field(default_factory=list)
    cpu_s: list[list[float]] = field(default_factory=list)
    away_s: list[list[float]] = field(default_factory=list)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    holds: list[Hold] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    @property
    def windows(self) -> int:
        """Finished ones."""
        return len(self.counts)


async def observe(clients: Sequence[Client], setting: Setting, into: Observed) -> None:
    """Start the clients, wait until each has done an iteration, then fill ``into`` window by window.

    A client that ends is an event, not the end. Raises EunomiaError for one that ends before, or never begins.
    """
    must_be_supported()
    async with AsyncExitStack() as stack:
        desk: Desk | None = None
        front: Front | None = None
        environment: dict[str, str] = {}
        if setting.rules is not None:
            desk = Desk(ShareScheduler(setting.rules))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="eunomia"))
            front = Front(desk, [client.spec for client in clients if client.takes_token])
            await stack.enter_async_context(front.listening(Path(folder) / "token"))
            environment = {SOCKET: str(Path(folder) / "token")}
        programs = [Program(client.spec.name, client.words, setting.pattern) for client in clients]
        for program in programs:
            stack.callback(program.kill)
        for client, program in zip(clients, programs, strict=True):
            own = {"PYTHONPATH": PYTHONPATH} if client.takes_token else {}
            if client.takes_token and desk is not None:
                own |= {**environment, CLIENT: program.name}
            program.start(setting.core, own)
        try:
            joining = sum(client.takes_token for client in clients) if front is not None else 0
            await asyncio.wait_for(_begun(programs, front, joining), setting.start_s)
        except TimeoutError:
            late = [program.missing() for program in programs if not program.ready.is_set()]
            said = "; ".join(late) or "a client took no token"
            raise EunomiaError(f"no iteration within {setting.start_s:g} s (--start): {said}") from None
        if desk is not None:
            into.holds = desk.holds
            await stack.enter_async_context(_watched(desk, clients, programs))
            desk.open()
        await asyncio.sleep(SETTLE_S)
        await _windows(clients, programs, setting, desk, into)


async def _begun(programs: Sequence[Program], front: Front | None, joining: int) -> None:
    """Until every program has done an iteration, and those that take the token have joined."""
    for program in programs:
        await program.ready.wait()
        program.check()
    while front is not None and len(front.connected) < joining:
        for program in programs:
            program.check()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _watched(desk: Desk, clients: Sequence[Client], programs: Sequence[Program]) -> AsyncIterator[None]:
    """A warden for each program that takes no token by itself."""
    tasks = []
    for client, program in zip(clients, programs, strict=True):
        if not client.takes_token:
            desk.scheduler.join(client.spec)
            program.look()
            program.stop()
            tasks.append(asyncio.create_task(Warden(desk, program).watch()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        desk.close()


async def _windows(
    clients: Sequence[Client],
    programs: Sequence[Program],
    setting: Setting,
    desk: Desk | None,
    into: Observed,
) -> None:
    began_s = time.monotonic()
    into.edges_s.append(began_s)
    cpu = _cpu(programs)
    ended: set[str] = set()
    for number in range(1, round(setting.seconds / setting.window_s) + 1):
        await asyncio.sleep(began_s + number * setting.window_s - time.monotonic())
        now_s, before_s, cpu_before = time.monotonic(), into.edges_s[-1], cpu
        cpu = _cpu(programs)
        into.edges_s.append(now_s)
        into.counts.append([p.iterations.at(now_s) - p.iterations.at(before_s) for p in programs])
        into.cpu_s.append([max(0.0, b - a) for a, b in zip(cpu_before, cpu, strict=True)])
        into.away_s.append(
            [_away_s(client, desk, before_s, now_s, began_s, client.spec.name in ended) for client in clients]
        )
        for client, program in zip(clients, programs, strict=True):
            _check_memory(client, program, into)
            if program.ended and program.name not in ended:
                ended.add(program.name)
                into.events.append(f"{now_s - began_s:.0f} s: {program.why()}")
        if len(ended) == len(programs):
            return


def _away_s(
    client: Client, desk: Desk | None, since_s: float, until_s: float, began_s: float, ended: bool
) -> float:
    """Seconds of a window without work: by the desk's books, or by what was ordered where there is no desk."""
    if ended:
        return until_s - since_s
    if desk is not None:
        return desk.away_s(client.spec.name, since_s, until_s)
    if client.idle is None:
        return 0.0
    first_s, last_s = (began_s + s for s in client.idle)
    return max(0.0, min(until_s, last_s) - max(since_s, first_s))


def _cpu(programs: Sequence[Program]) -> list[float]:
    for program in programs:
        program.look()
    return [program.cpu_s() for program in programs]


def _check_memory(client: Client, program: Program, into: Observed) -> None:
    """Note the largest memory of a client; end one that holds more than its cap."""
    used, name, cap = program.memory_bytes(), client.spec.name, client.spec.memory_bytes
    into.memory_bytes[name] = max(used, into.memory_bytes.get(name, 0))
    if cap is not None and used > cap and not program.ended:
        into.events.append(f"client '{name}' held {used >> 20} MiB of its {cap >> 20} MiB: it was ended")
        program.end()
