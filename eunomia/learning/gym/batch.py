"""A batch of episodes in progress: buffers, starting, stepping, growing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel import loop, modes
from eunomia.inference.kernel.layout import KERNEL
from eunomia.inference.kernel.setup import STEP, Rules
from eunomia.inference.kernel.signatures import compile_key
from eunomia.inference.kernel.state import State, new_state
from eunomia.inference.policies.ordering import fcfs
from eunomia.learning.encodings import Choice, Starts
from eunomia.learning.episodes import Episode
from eunomia.learning.gym.stepping import Answers, Score, Shown, compiled_step
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.policy.learned import compiled_decision
from eunomia.learning.rewards import DURATION, REQUESTS, no_tally

AT_REST = -2  # of ``counts``: this episode is not stepped


class Batch:
    """E episodes of at most N shown sub-jobs on S accelerators; what is observed stands in ``shown``.

    ``tally`` (E, TALLY); ``asking`` (E,): waits for an answer; False = the episode is over, or has not begun.
    """

    def __init__(self, size: int, most: int, lanes: int) -> None:
        self.lanes = lanes
        self.shown = Shown(
            np.full((size, most), -1, np.int64),
            np.zeros((size, most, len(JOB))),
            np.zeros((size, most, lanes, len(PAIR))),
            np.zeros((size, len(GLOBAL))),
            np.zeros((size, most, lanes)),
            np.zeros((size, most, lanes), np.bool_),
            np.zeros((size, lanes), np.bool_),
        )
        self.asking = np.zeros(size, np.bool_)
        self._kernels = np.zeros(size, KERNEL)
        self._states: dict[int, State] = {}
        self._score = Score(np.zeros((size, 0), np.uint8), np.zeros(size, np.int64), no_tally(size))
        starts, status = np.zeros((size, lanes, 2), np.int64), np.zeros(size, np.int64)
        self._answers = Answers(starts, np.full(size, AT_REST, np.int64), status)

    @property
    def tally(self) -> Floats:
        """(E, TALLY) what was earned so far."""
        return self._score.tally

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
        marks, requests, tally = self._score
        count = len(problem.jobs.pair)
        marks = np.pad(marks, ((0, 0), (0, max(0, count - marks.shape[1]))))
        self._score = Score(marks, requests, tally)
        marks[e], tally[e], requests[e] = 0, 0.0, count
        tally[e, REQUESTS] = max(count, 1)
        tally[e, DURATION] = max(float(problem.jobs.arrival_s.max(initial=0.0)), 1e-12)
        self.step({e: None})

    def choice(self, e: int) -> Choice:
        """What episode e may choose from."""
        return Choice(self.shown.can[e], self.shown.idle[e], self.shown.finish_s[e])

    def now_s(self, e: int) -> float:
        """The clock of episode e."""
        return float(self._states[e]["system"]["now_s"][0]) if e in self._states else 0.0

    def step(self, answers: Mapping[int, Starts | None]) -> None:
        """Answer the named episodes (None: just begin) and go to their next decisions, all in one compiled call.

        A hold at which nothing runs and nothing will happen is overruled: the most urgent sub-job starts.
        """
        starts, counts, status = self._answers
        counts[:] = AT_REST
        for e, given in answers.items():
            counts[e] = -1 if given is None else len(given)
            if given:
                starts[e, : len(given)] = given
        self._run()
        while (stalled := np.flatnonzero((counts > AT_REST) & (status == loop.STALLED))).size:
            counts[:] = AT_REST
            for e in stalled.tolist():
                can = self.shown.can[e] & self.shown.idle[e]
                counts[e], starts[e, 0] = 1, np.unravel_index(int(np.argmax(can)), can.shape)
            self._run()
        for e in answers:
            self.asking[e] = status[e] == loop.ASK

    def _run(self) -> None:
        """The compiled call, again for those that must grow or paused."""
        _, counts, status = self._answers
        key, decide, views = compile_key(fcfs), compiled_decision(), modes.compiled_run(modes.VIEWS)
        asked = counts.copy()
        while True:
            compiled_step()(self._kernels, views, key, decide, self._answers, self.shown, self._score)
            stepped = counts > AT_REST
            if (fault := np.flatnonzero(stepped & (status == loop.FAULT))).size:
                raise PolicyError(f"an action asked for what is not possible in episode {fault[0]}")
            going = stepped & np.isin(status, (loop.GROW, loop.PAUSE))
            if not going.any():
                break
            counts[:] = np.where(going, -1, AT_REST)
            for e in np.flatnonzero(going & (status == loop.GROW)).tolist():
                self._states[e].grow()
        counts[:] = asked
