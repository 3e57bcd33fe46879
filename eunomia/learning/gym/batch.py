"""A batch of episodes in progress: buffers, starting, stepping, growing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.core.errors import PolicyError
from eunomia.inference.kernel import loop
from eunomia.inference.kernel.layout import KERNEL
from eunomia.inference.kernel.setup import STEP, Rules
from eunomia.inference.kernel.signatures import compile_key
from eunomia.inference.kernel.state import State, new_state
from eunomia.inference.policies.ordering import fcfs
from eunomia.learning.encodings import Choice, Starts
from eunomia.learning.episodes import Episode
from eunomia.learning.gym.stepping import compiled_step, compiled_views
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.policy.learned import compiled_decision
from eunomia.learning.rewards import DURATION, REQUESTS, no_tally

AT_REST = -2  # of ``counts``: this episode is not stepped


class Batch:
    """E episodes of at most N shown sub-jobs on S accelerators; what is observed stands in the arrays.

    ``jobs`` (E, N, JOB), ``pairs`` (E, N, S, PAIR), ``overall`` (E, GLOBAL), ``can`` (E, N, S), ``idle`` (E, S),
    ``tally`` (E, TALLY), ``asking`` (E,): waits for an answer; False = the episode is over.
    """

    def __init__(self, size: int, most: int, lanes: int, requests: int) -> None:
        self.most, self.lanes = most, lanes
        self.jobs, self.pairs = np.zeros((size, most, len(JOB))), np.zeros((size, most, lanes, len(PAIR)))
        self.overall, self.finish_s = np.zeros((size, len(GLOBAL))), np.zeros((size, most, lanes))
        self.can, self.idle = np.zeros((size, most, lanes), np.bool_), np.zeros((size, lanes), np.bool_)
        self.rows, self.tally = np.full((size, most), -1, np.int64), no_tally(size)
        self.asking = np.zeros(size, np.bool_)
        self._kernels = np.zeros(size, KERNEL)
        self._states: list[State | None] = [None] * size
        self._marks, self._requests = np.zeros((size, requests), np.uint8), np.zeros(size, np.int64)
        self._starts, self._counts = np.zeros((size, lanes, 2), np.int64), np.full(size, AT_REST, np.int64)
        self._status = np.zeros(size, np.int64)

    def start(self, e: int, episode: Episode) -> None:
        """Begin an episode in place e and go to its first decision. Raises PolicyError if it does not fit."""
        problem, options = episode.problem, episode.options
        if len(problem.type_of) != self.lanes or options.period_s is not None:
            raise PolicyError(
                f"episode '{episode.name}' has {len(problem.type_of)} accelerators"
                f"{', and a period' if options.period_s else ''}; this environment has {self.lanes} and no periods"
            )
        state = new_state(problem, Rules(STEP), options)
        self._kernels[e] = state.kernel[0]
        state.kernel = self._kernels[e : e + 1]
        self._states[e] = state
        count = len(problem.jobs.pair)
        if count > self._marks.shape[1]:
            self._marks = np.hstack(
                [self._marks, np.zeros((len(self._marks), count - self._marks.shape[1]), np.uint8)]
            )
        self._marks[e], self.tally[e], self._requests[e] = 0, 0.0, count
        self.tally[e, REQUESTS] = max(count, 1)
        self.tally[e, DURATION] = max(float(problem.jobs.arrival_s.max(initial=0.0)), 1e-12)
        self.step({e: None})

    def choice(self, e: int) -> Choice:
        """What episode e may choose from."""
        return Choice(self.can[e], self.idle[e], self.finish_s[e])

    def now_s(self, e: int) -> float:
        """The clock of episode e."""
        state = self._states[e]
        return float(state["system"]["now_s"][0]) if state is not None else 0.0

    def step(self, answers: dict[int, Starts | None]) -> None:
        """Answer the named episodes (None: just begin) and go to their next decisions, all in one compiled call.

        A hold at which nothing runs and nothing will happen is overruled: the most urgent sub-job starts.
        """
        self._counts[:] = AT_REST
        for e, starts in answers.items():
            self._counts[e] = -1 if starts is None else len(starts)
            if starts:
                self._starts[e, : len(starts)] = starts
        self._call()
        while (stalled := np.flatnonzero((self._counts > AT_REST) & (self._status == loop.STALLED))).size:
            self._counts[:] = AT_REST
            for e in stalled.tolist():
                self._overrule(e)
            self._call()
        for e in answers:
            self.asking[e] = self._status[e] == loop.ASK

    def _overrule(self, e: int) -> None:
        """Undo a hold that would last for ever."""
        i, s = np.unravel_index(int(np.argmax(self.can[e] & self.idle[e])), self.can[e].shape)
        self._counts[e], self._starts[e, 0] = 1, (i, s)

    def _call(self) -> None:
        """The compiled call, again for those that must grow or paused."""
        key, decide = compile_key(fcfs), compiled_decision()
        asked = self._counts.copy()
        while True:
            compiled_step()(
                self._kernels, compiled_views(), key, decide, self._starts, self._counts, self._status, self.rows,
                self.jobs, self.pairs, self.overall, self.finish_s, self.can, self.idle, self._marks, self._requests,
                self.tally,
            )  # fmt: skip
            going = (self._counts > AT_REST) & np.isin(self._status, (loop.GROW, loop.PAUSE))
            if (fault := (self._counts > AT_REST) & (self._status == loop.FAULT)).any():
                raise PolicyError(
                    f"an action asked for what is not possible in episode {int(np.argmax(fault))}"
                )
            if not going.any():
                break
            self._counts[:] = np.where(going, -1, AT_REST)
            for e in np.flatnonzero(going & (self._status == loop.GROW)).tolist():
                state = self._states[e]
                assert state is not None, "stepped episodes have a state"
                state.grow()
        self._counts[:] = asked


def most_requests(episodes: Sequence[Episode]) -> int:
    """Largest number of requests of the episodes."""
    return max(len(episode.problem.jobs.pair) for episode in episodes)
