"""What connections over gRPC bring beside the messages of their calls, which the library takes in without a bound.

A frame of HTTP/2 may belong to no message: a window, a ping, a byte for a stream that has ended. It costs the library
10 µs in the event loop's thread, and some cost memory; nothing bounds them. But the kernel counts what each connection
has brought, and ``Door`` knows what its calls account for. Who has brought more is cut. So is one whose
message comes in crumbs, by a look at what waits in its socket. Where that was much or happens again, its address gets
no new connections for a while, from the kernel (``barring.py``): others behind that address wait as well. So does an
address of which very many calls show no valid key, and none of late did: the library has one line for all calls.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from eunomia.serving.fronts.barring import Bars, Connected, connection_at, end
from eunomia.serving.fronts.grpc_room import Room

log = logging.getLogger("eunomia.serving")
BUSY_S, CALM_S = 0.05, 0.2  # between two looks
BUSY_SHARE = 0.1  # of a core that this process used meanwhile
AT_ONCE, BEYOND = 256, 32  # descriptors in one look; so many behind the last that was open
BASE, PER_S = 128 * 1024, 4096  # bytes of a connection for settings, pings and the like
CALL = 16 * 1024  # of a call, or a message of a stream: its headers, and windows for its answer
WINDOW = 64 * 1024  # the library lets a client send so much of a call that nobody has asked for
STREAMS = 128  # calls of a connection, most of which ``Door`` may not have seen yet
FRAMING = 1.125  # of a message
MUCH = 1024**2  # beyond what is allowed
TAKING = 256  # bytes of an answer for one that says so
STRANGE, STRANGE_S = 200, 1.0  # calls without a valid key of one address, and until they are forgotten
STRANGE_IN_ALL, STRANGE_OF_MANY = 1000, 20  # from so many of all on, an address may have these
KNOWN_S, MOST_KNOWN = 60.0, 4096
KEPT_ROUNDS = 3  # through all descriptors, in which nothing was seen of a connection
SCOPE = re.compile(r"%25[^%]*(?=%5D)")  # of an address within a link
COUNTED = sys.platform == "linux"
LOOKED_AT, LARGEST_CRUMB, MOST_STEPS = 4096, 320, 6000
STREAM_KINDS, HEADERS, MOST_STREAMS = (0, 1, 2, 3, 9), 1, 10**6


@dataclass(slots=True)
class Account:
    """Of one connection. ``due``: bytes of what has come of its calls; ``awaited``: of messages that are read now.

    ``lapsed``: at most so many have come of what nobody awaits any more. ``round``: in which it was last seen.
    ``keyed``: a call on it had a valid key.
    """

    since_s: float
    round: int = 0
    due: float = 0.0
    calls: int = 0
    awaited: int = 0
    lapsed: int = 0
    keyed: bool = False


class Wire:
    """``ended``: connections that were cut."""

    def __init__(self) -> None:
        self.ended = 0
        self._port = 0
        self._accounts: dict[str, Account] = {}
        self._next, self._top, self._round = 3, BEYOND, 0
        self._cpu_s = self._last_s = 0.0
        self._strikes = Counter[str]()
        self._bars, self._room = Bars(), Room(math.inf)
        self._strange, self._strangers, self._forgotten_s = Counter[str](), 0, 0.0
        self._known_s = dict[str, float]()  # addresses; when a call from there last had a valid key
        self._unwelcome = dict[str, int]()  # addresses; until the end of which round

    def watch(self, port: int, most: float = math.inf) -> None:
        """From now on, for as long as the event loop runs; only Linux counts so. ``most``: connections of the port."""
        self._port, self._room = port, Room(most)
        asyncio.get_running_loop().call_later(CALM_S, self._look)

    @contextmanager
    def call(self, peer: str) -> Iterator[None]:
        """From its first byte to its end."""
        mine = self._account(peer)
        mine.calls += 1
        mine.due += CALL
        try:
            yield
        finally:
            mine.calls -= 1
            mine.lapsed += WINDOW

    @contextmanager
    def message(self, peer: str, most: int) -> Iterator[None]:
        """While it is awaited, so many bytes of it may be here."""
        mine = self._account(peer)
        mine.awaited += most
        try:
            yield
        except BaseException:
            self.lost(peer, most)
            raise
        finally:
            mine.awaited -= most

    def lost(self, peer: str, most: int) -> None:
        """A message has been given up in its midst, or none has come: up to so many bytes of it are here."""
        self._account(peer).lapsed += most

    def took(self, peer: str, size: int) -> None:
        """A message has come."""
        self._account(peer).due += FRAMING * size + CALL

    def gave(self, peer: str, size: int) -> None:
        """An answer; the client says as it comes that it takes more."""
        self._account(peer).due += size / TAKING

    def strange(self, host: str) -> None:
        """A call from there shows no valid key."""
        if not COUNTED:
            return
        self._strange[host] += 1
        self._strangers += 1
        most = STRANGE if self._strangers < STRANGE_IN_ALL else STRANGE_OF_MANY
        if self._strange[host] >= most and host not in self._unwelcome:
            now_s = time.monotonic()
            if now_s - self._known_s.get(host, -math.inf) > KNOWN_S:  # else it may be a proxy
                self._unwelcome[host] = self._round + 1
                self._bar(host, now_s, f"{self._strange[host]} calls in a second had no valid key")

    def known(self, host: str, peer: str) -> None:
        """A call from there, on this connection, has a valid key."""
        self._known_s[host] = time.monotonic()
        self._account(peer).keyed = True

    def _account(self, peer: str) -> Account:
        peer = SCOPE.sub("", peer) if "fe80" in peer else peer
        mine = self._accounts.get(peer)
        if mine is None:
            mine = self._accounts[peer] = Account(time.monotonic())
        mine.round = self._round
        return mine

    def beyond(self, peer: str, received: int, now_s: float) -> tuple[float, float]:
        """Bytes that no message accounts for, by all that may be on its way, and by the windows of its known calls."""
        mine = self._account(peer)
        came = received - mine.due - BASE - PER_S * (now_s - mine.since_s)
        return came - FRAMING * mine.awaited - STREAMS * (WINDOW + CALL), came - WINDOW * mine.calls

    def _look(self) -> None:
        wait_s = CALM_S
        try:
            wait_s = self._looked()
        finally:  # whatever happens, it looks again
            asyncio.get_running_loop().call_later(wait_s, self._look)

    def _looked(self) -> float:
        """At some descriptors; at all in turn. Seconds until the next look."""
        cpu_s, now_s = time.process_time(), time.monotonic()
        busy = cpu_s - self._cpu_s > BUSY_SHARE * (now_s - self._last_s)
        self._cpu_s, self._last_s = cpu_s, now_s
        for number in range(self._next, self._next + AT_ONCE):
            if through := number >= self._top or not COUNTED:
                break
            if (one := connection_at(number, self._port)) is not False:
                self._top = max(self._top, number + BEYOND)
            if isinstance(one, Connected):
                self._judge(one, now_s)
                mine = self._account(one.peer)
                crowded = self._room.ends(one.host, calls=mine.calls > 0)
                if crowded or (one.host in self._unwelcome and not mine.keyed):
                    end(one)
        self._next += AT_ONCE
        if through:
            self._next = 3
            self._round += 1
            self._room.next_round()
            self._unwelcome = {host: last for host, last in self._unwelcome.items() if last >= self._round}
            known = self._accounts.items()
            self._accounts = {peer: a for peer, a in known if a.calls or a.round > self._round - KEPT_ROUNDS}
        if now_s - self._forgotten_s >= STRANGE_S:
            self._forgotten_s = now_s
            self._strange.clear()
            self._strangers = 0
            if len(self._strikes) > MOST_KNOWN:
                self._strikes.clear()
            if len(self._known_s) > MOST_KNOWN:
                self._known_s = {host: s for host, s in self._known_s.items() if now_s - s < KNOWN_S}
        self._bars.lift(self._port, now_s)
        return BUSY_S if busy or not through else CALM_S

    def _judge(self, one: Connected, now_s: float) -> None:
        far, beyond = self.beyond(one.peer, one.received, now_s)
        mine = self._account(one.peer)
        if beyond <= 0.0:
            mine.lapsed = 0  # all that was given up is covered, or has not come
        elif in_crumbs(one.waiting(LOOKED_AT)):
            self._cut(one, beyond, now_s)
        elif (given_up := min(FRAMING * mine.lapsed, beyond)) > 0.0:
            mine.due, mine.lapsed = mine.due + given_up, 0
        elif far > 0.0:
            self._cut(one, beyond, now_s)

    def _cut(self, one: Connected, beyond: float, now_s: float) -> None:
        self.ended += 1
        end(one)
        self._strikes[one.host] += 1
        why = f"{beyond / 1e3:.0f} KB belong to no call"
        if beyond < MUCH and self._strikes[one.host] == 1:
            log.warning("a connection over gRPC from %s was ended: %s", one.host, why)
        else:
            self._bar(one.host, now_s, why)

    def _bar(self, host: str, now_s: float, why: str) -> None:
        if (for_s := self._bars.put(self._port, host, now_s)) > 0.0:
            text = "connections over gRPC from %s end: %s; it gets no new ones for %.0f s"
            log.warning(text, host, why, for_s)


def in_crumbs(data: bytes) -> bool:
    """Whether bytes out of the middle of HTTP/2 are a long row of small frames that begin next to no call.

    Some that wait are nothing: a proxy takes back calls and opens windows for many clients at once.
    """
    steps = 0
    if len(data) < LOOKED_AT:
        return False
    for begin in range(min(len(data), LARGEST_CRUMB)):
        at, frames, heads = begin, 0, 0
        while at + 9 <= len(data) and (size := _crumb(data, at)) >= 0:
            frames, heads, steps = frames + 1, heads + (data[at + 3] == HEADERS), steps + 1
            at += 9 + size
        if at + 9 > len(data) and 8 * heads <= frames:
            return True
        if steps > MOST_STEPS:
            break
    return False


def _crumb(data: bytes, at: int) -> int:
    """Bytes behind the head of a small frame that begins here; -1 = none does."""
    size, kind = int.from_bytes(data[at : at + 3], "big"), data[at + 3]
    stream = int.from_bytes(data[at + 5 : at + 9], "big")
    fits = size <= LARGEST_CRUMB and stream <= MOST_STREAMS and (stream > 0 or kind not in STREAM_KINDS)
    return size if fits else -1
