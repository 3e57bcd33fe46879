"""Clients that wait for an answer before they ask again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.workload.arrivals import cumulate
from eunomia.workload.quantity import not_negative


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """``clients`` of which each thinks, sends one request, waits until it has left the system, and so on.

    The first request of a client comes after one think time. For fixed times it is a uniform part, so that
    clients do not march in step. A client's list ends when its think times alone fill the run, or at
    ``requests_per_client``; the engine sends as many of them as fit. A closed loop never overloads a system:
    it slows down instead, which hides queueing. Use open arrivals to study overload.
    """

    clients: int
    think_s: float = 0.0
    think: Literal["exponential", "fixed"] = "exponential"
    requests_per_client: int | None = None  # None: as many as could fit if service took no time

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise ConfigError(f"closed_loop clients is {self.clients}; it must be at least 1")
        not_negative("closed_loop think_s", self.think_s)
        if self.think not in ("exponential", "fixed"):
            raise ConfigError(f"closed_loop think is '{self.think}'; choose one of: exponential, fixed")
        if self.requests_per_client is not None and self.requests_per_client < 1:
            raise ConfigError(
                f"closed_loop requests_per_client is {self.requests_per_client}; it must be at least 1"
            )
        if self.think_s == 0.0 and self.requests_per_client is None:
            raise ConfigError("closed_loop with think_s = 0 has no natural end; give requests_per_client")

    def expected_requests(self, duration_s: float) -> float:
        """Upper bound on the mean number of rows."""
        fit = duration_s / self.think_s + 1.0 if self.think_s else float("inf")
        if self.requests_per_client is not None:
            fit = min(fit, float(self.requests_per_client))
        return self.clients * fit

    def chains(self, rng: np.random.Generator, duration_s: float) -> tuple[Floats, Ints]:
        """Columns (time, after), sorted by round, then client.

        ``after`` is the row of the client's request before, -1 in round 0, where the time is an
        arrival; in later rounds it is a think time.
        """
        thinks = [self._client(child, duration_s) for child in rng.spawn(self.clients)]
        client = np.repeat(np.arange(self.clients), [len(t) for t in thinks])
        turn = np.concatenate([np.arange(len(t)) for t in thinks])
        order = np.lexsort((client, turn))  # rows of the clients' lists, end to end -> sorted rows
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        after = np.where(turn > 0, np.roll(place, 1), -1)  # a client's rows are neighbours in the lists
        return np.concatenate(thinks)[order], after[order]

    def _client(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Think times of one client, the first of which is its start."""
        limit = self.requests_per_client
        if self.think_s == 0.0:
            return np.zeros(limit or 0)
        if self.think == "fixed":
            start_s = rng.uniform(0.0, self.think_s)
            rounds = int(np.ceil(max(0.0, duration_s - start_s) / self.think_s))
            gaps = np.full(rounds, self.think_s)
            gaps[:1] = start_s
            return gaps[:limit]
        times = cumulate(lambda size: rng.exponential(self.think_s, size), duration_s)
        return np.diff(times[:limit], prepend=0.0)
