"""Promised against delivered: real clients share one core, and what each got is counted window by window."""

from __future__ import annotations

import asyncio
import math
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.arrays import Flags, Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.report.table import Table
from eunomia.sharing.shares.live import STRESS, Client, Observed, Setting, observe
from eunomia.sharing.shares.scheduler import ShareRules
from eunomia.sharing.shares.spec import ShareSpec, check_together
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

MODES = ("token", "system", "theirs")
AWAY = 0.05  # part of a window from which a client does not count as backlogged
BUILT_IN = ("compute", "memory")
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
CLIENT = re.compile(
    r"(?P<name>[^=:\s]+)=(?P<request>[\d.]+?)(?:\.\.(?P<limit>[\d.]+))?(?:@(?P<memory>\d+)(?P<unit>[KMG]?))?"
    r"(?::(?P<command>.*))?",
    re.DOTALL,
)


def parse_client(text: str) -> Client:
    """``NAME=REQUEST[..LIMIT][@MEMORY][:COMMAND]``; without a command, or with one that begins with ``stress``, ours.

    ``token COMMAND``: a program that takes the token by itself. Raises ConfigError.
    """
    found = CLIENT.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"client '{text}': write NAME=REQUEST[..LIMIT][@MEMORY][:COMMAND], for example a=0.3..0.5@2G:stress memory"
        )
    memory = int(found["memory"]) * UNITS[found["unit"]] if found["memory"] else None
    try:
        request, limit = float(found["request"]), float(found["limit"] or 1.0)
    except ValueError:
        raise ConfigError(f"client '{text}': request and limit are numbers, for example 0.3..0.5") from None
    spec = ShareSpec(found["name"], request, limit, memory)
    words = _split("stress" if found["command"] is None else found["command"])
    if words[0] == "stress":
        return _stressor(spec, words[1:])
    takes_token = words[0] == "token"
    if takes_token and len(words) == 1:
        raise ConfigError(f"client '{text}': a command follows 'token'")
    return Client(spec, tuple(words[takes_token:]), takes_token)


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"command '{command}': {error}; close what is open") from None
    if not words:
        raise ConfigError("a client's command is empty; leave out the colon for a stressor")
    return words


def _stressor(spec: ShareSpec, words: Sequence[str]) -> Client:
    """``stress [KIND] [ITERATION_MS] [idle=FROM..TO]``."""
    from eunomia.sharing.shares.stress import spell_of

    kind, each_ms, idle = "compute", 5.0, None
    for word in words:
        if word.startswith("idle="):
            idle = spell_of(word.removeprefix("idle="))
        elif word.replace(".", "", 1).isdigit():
            each_ms = float(word)
        elif word in BUILT_IN or word.endswith(".onnx"):
            kind = word
        else:
            raise UnknownNameError("stressor", word, [*BUILT_IN, "FILE.onnx"])
    return Client(spec, (*STRESS, kind, "--iteration-ms", f"{each_ms:g}"), True, idle)


@dataclass(frozen=True)
class VerifyStudy:
    """``mode``: ``token`` (ours), ``system`` (one core, no token), ``theirs`` (commands as they are, only counted)."""

    clients: tuple[Client, ...]
    mode: str = "token"
    seconds: float = 60.0
    window_s: float = 5.0
    alone_s: float = 4.0
    core: int | None = None
    within: float = 0.03
    count: str | None = None
    start_s: float = 60.0
    rules: ShareRules = field(default_factory=ShareRules)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownNameError("mode", self.mode, MODES)
        if not self.clients:
            raise ConfigError("no client; give at least one, for example a=0.3 b=0.7")
        check_together(client.spec for client in self.clients)
        if not 0.0 <= self.within <= 1.0:
            raise ConfigError(
                f"within is {self.within:g}; a part of the device from 0 to 1: 0.03 is 3 points"
            )
        for client in self.clients:
            if shutil.which(client.command[0]) is None:
                raise ConfigError(
                    f"client '{client.spec.name}': there is no command '{client.command[0]}'; give its path, or a name "
                    "that PATH finds"
                )
        for name in ("seconds", "window_s", "alone_s", "start_s"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ConfigError(f"{name} is {value}; more than 0")
        if self.seconds < self.window_s:
            raise ConfigError(f"{self.seconds:g} s hold no window of {self.window_s:g} s; measure for longer")
        cores = os.sched_getaffinity(0)
        if self.core is not None and self.core not in cores:
            raise ConfigError(f"core {self.core} is not among those of this process: {sorted(cores)}")

    @property
    def setting(self) -> Setting:
        """How clients run."""
        try:
            pattern = re.compile(self.count) if self.count else None
        except re.error as error:
            raise ConfigError(f"--count '{self.count}' is no regular expression: {error}") from None
        if pattern is not None and pattern.groups != 1:
            raise ConfigError(f"--count '{self.count}' has {pattern.groups} groups; one, around the number")
        chosen = max(os.sched_getaffinity(0)) if self.core is None else self.core
        core = self.core if self.mode == "theirs" else chosen
        rules = self.rules if self.mode == "token" else None
        return Setting(self.seconds, self.window_s, core, rules, pattern, self.start_s)


@dataclass(frozen=True, repr=False)
class Verified(Result):
    """Windows in rows, clients in columns. ``rates``: iterations per second alone; ``drift``: how far two differed."""

    study: VerifyStudy
    seen: Observed
    rates: tuple[float, ...]
    drift: float
    interrupted: bool = False

    @property
    def of_alone(self) -> Floats:
        """(windows, clients) progress over that of the same time alone."""
        length_s = np.diff(self.seen.edges_s)[: self.seen.windows, None]
        return np.asarray(np.array(self.seen.counts) / np.array(self.rates) / length_s)

    @property
    def delivered(self) -> Floats:
        """(windows, clients) part of all progress of a window."""
        found = self.of_alone
        return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12))

    @property
    def busy(self) -> Flags:
        """(windows, clients) whether a client had work all the time."""
        length_s = np.diff(self.seen.edges_s)[: self.seen.windows, None]
        return np.asarray(np.array(self.seen.away_s) < AWAY * length_s)

    @property
    def backlogged(self) -> Flags:
        """Windows in which all had work."""
        return np.asarray(self.busy.all(axis=1))

    def kept(self, client: int) -> bool:
        """Whether the mean over windows in which all had work lies between request and limit, give or take."""
        spec, margin = self.study.clients[client].spec, self.study.within
        if not self.backlogged.any():
            return False
        share = float(self.delivered[self.backlogged, client].mean())
        absolute = float(self.of_alone[:, client].mean())
        return share >= spec.request - margin and absolute <= spec.limit + margin

    @property
    def title(self) -> str:
        """What was run."""
        how = {"token": "token", "system": "the system's own slices", "theirs": "somebody else's sharing"}
        lines = [f"{len(self.rates)} clients under {how[self.study.mode]}"]
        lines.append(f"{self.seen.windows} windows of {self.study.window_s:g} s, measured on this machine")
        return ", ".join(lines)

    def table(self, short: bool = False) -> Table:
        """A line per client."""
        rows, full = [], self.backlogged
        cpu = np.array(self.seen.cpu_s)
        for n, client in enumerate(self.study.clients):
            spec, shares = client.spec, self.delivered[full, n]
            spread = f"{shares.min():.1%} .. {shares.max():.1%}" if len(shares) else "-"
            used = cpu[full].sum(axis=0)
            rows.append(
                (
                    spec.name,
                    f"{spec.request:.0%} .. {spec.limit:.0%}",
                    f"{shares.mean():.1%}" if len(shares) else "-",
                    spread,
                    f"{self.of_alone[full, n].mean():.1%}" if len(shares) else "-",
                    f"{used[n] / used.sum():.1%}" if used.sum() else "-",
                    "yes" if self.kept(n) else "no",
                )
            )
        head = ("client", "promised", "delivered", "windows", "of alone", "processor", "kept")
        return Table(head, tuple(rows))

    def windows(self) -> Table:
        """A line per window: what each client got of all progress; in brackets, who had no work."""
        head = ("from", *(client.spec.name for client in self.study.clients), "together")
        rows = []
        for number, (shares, busy) in enumerate(zip(self.delivered, self.busy, strict=True)):
            cells = [f"{s:.1%}" if b else f"({s:.1%})" for s, b in zip(shares, busy, strict=True)]
            rows.append((f"{number * self.study.window_s:g} s", *cells, f"{self.of_alone[number].sum():.1%}"))
        return Table(head, tuple(rows))

    def footnotes(self) -> list[str]:
        """How to read it."""
        lines = [
            "delivered: part of the progress of all clients, in windows in which all had work; of alone: progress over "
            "that of the client alone"
        ]
        if self.drift > 0.0:
            lines.append(f"two measurements alone differed by {self.drift:.1%} at most")
        return lines

    def sentences(self) -> list[str]:
        """What happened."""
        full = self.backlogged
        found = [*self.seen.events]
        if self.interrupted:
            found.append(f"interrupted: {self.seen.windows} windows were finished")
        if full.any():
            found.append(
                f"together: {self.of_alone[full].sum(axis=1).mean():.1%} of one client alone, all at work in "
                f"{int(full.sum())} of {len(full)} windows"
            )
        if (~full).any():
            found.append(
                f"while somebody had no work: {self.of_alone[~full].sum(axis=1).mean():.1%} of one client alone"
            )
        if holds := self.seen.holds:
            held_s = sum(hold.end_s - hold.start_s for hold in holds)
            over_s = sum(hold.overuse_s for hold in holds)
            length_s = holds[-1].end_s - holds[0].start_s
            found.append(
                f"{len(holds)} tokens, held for {held_s / length_s:.1%} of the time, "
                f"overuse {over_s / held_s:.2%} of that"
            )
        return found

    def faults(self) -> list[str]:
        """A sentence per broken promise."""
        found = []
        for n, client in enumerate(self.study.clients):
            if not self.kept(n):
                spec, full = client.spec, self.backlogged
                got = (
                    f"{self.delivered[full, n].mean():.1%} of the progress"
                    if full.any()
                    else "there was no window in which all had work"
                )
                found.append(
                    f"client '{spec.name}' was promised {spec.request:.0%} to {spec.limit:.0%}: {got}, "
                    f"{self.of_alone[:, n].mean():.1%} of its speed alone"
                )
        return found

    def rows(self) -> list[Row]:
        """One row per window and client."""
        return [
            {
                "window": w,
                "client": client.spec.name,
                "request": client.spec.request,
                "limit": client.spec.limit,
                "iterations": self.seen.counts[w][n],
                "cpu_s": self.seen.cpu_s[w][n],
                "delivered": float(self.delivered[w, n]),
                "of_alone": float(self.of_alone[w, n]),
                "backlogged": bool(self.busy[w, n]),
            }
            for w in range(self.seen.windows)
            for n, client in enumerate(self.study.clients)
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A line per client over the windows."""
        times = np.arange(self.seen.windows) * self.study.window_s
        for n, client in enumerate(self.study.clients):
            axes.plot(times, self.delivered[:, n], label=client.spec.name)
        axes.legend()


def run_verify(study: VerifyStudy) -> Verified:
    """Each distinct command alone, all together, each alone again. After Ctrl-C: the windows that were finished."""
    setting = study.setting
    seen = Observed(tuple(client.spec.name for client in study.clients))
    with _elsewhere(setting.core):
        before = _alone(study, setting)
        interrupted = False
        try:
            asyncio.run(observe(study.clients, setting, seen))
        except KeyboardInterrupt:
            if not seen.windows:
                raise
            interrupted = True
        after = before if interrupted else _alone(study, setting)
    rates = [(before[c.command] + after[c.command]) / 2.0 for c in study.clients]
    drift = max(abs(after[key] / before[key] - 1.0) for key in before)
    return Verified(study, seen, tuple(rates), drift, interrupted)


def _alone(study: VerifyStudy, setting: Setting) -> dict[tuple[str, ...], float]:
    """Iterations per second of each distinct command without company and without a token."""
    found = {}
    for client in study.clients:
        if client.command in found:
            continue
        seen = Observed((client.spec.name,))
        single = replace(setting, seconds=study.alone_s, window_s=study.alone_s, rules=None)
        asyncio.run(observe([replace(client, idle=None)], single, seen))
        if not seen.counts or seen.counts[0][0] == 0:
            raise ConfigError(
                f"client '{client.spec.name}' did no iteration in {study.alone_s:g} s alone; measure it for longer "
                "(--alone)"
            )
        found[client.command] = seen.counts[0][0] / (seen.edges_s[1] - seen.edges_s[0])
    return found


@contextmanager
def _elsewhere(core: int | None) -> Iterator[None]:
    """This process leaves the clients' core to them, if it has another one."""
    before = os.sched_getaffinity(0)
    others = before - {core}
    if core is not None and others:
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
