"""The realistic mode: rounds or events, with what moving, spreading and failing cost (docs/cluster.md).

Time goes from point to point. A *full* point (the start of a round, or any event for policies that hold devices for
good) hands out all devices; a *filling* point (arrivals, finishes and repairs with ``events = at_once``) hands out free
ones and moves nobody. A round in which nobody waits, moves, comes or goes is *quiet*: after it the policy is asked only
every 2, 4, ... up to 64 rounds, until something happens. Between points every running job advances exactly: first its
overhead, then steps at its own true speed, to the last fraction of a step. Overheads of a move (save, load, warm up)
are paid at the start of the new lease, on the new devices. Here is the clock; :mod:`.realistic_points` hands out.
"""

from __future__ import annotations

import numpy as np

from eunomia.cluster.engine import Engine
from eunomia.cluster.failures import JobFailures, ServerFailures
from eunomia.cluster.realistic_points import Points
from eunomia.core.arrays import Floats, Ints

PATIENCE = 1000  # rounds in which nothing runs, arrives or is repaired before the rest is reported unfinished


class RealisticMode(Points):
    """One run in realistic mode."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        options, jobs = engine.options, len(engine.problem)
        self.at_once = options.events == "at_once" or engine.needs.every_event
        self.ticks = not (engine.needs.sticky and engine.needs.every_event)
        self.server_failures = ServerFailures(options.failures, len(engine.up), options.seed)
        self.job_failures = JobFailures(options.failures, jobs, options.seed)

    def run(self) -> float:
        """Simulate to the end, or to the horizon; the time of it."""
        engine, options = self.engine, self.engine.options
        horizon_s = np.inf if options.horizon_s is None else options.horizon_s
        now_s = min(engine.next_arrival_s(), horizon_s)
        idle, full = 0, True
        round_end_s = now_s
        if now_s < horizon_s:
            self._servers_until(now_s)
        engine.admit(now_s)
        while now_s < horizon_s:
            if not len(engine.active):
                if not np.isfinite(engine.next_arrival_s()):
                    break
                now_s = min(engine.next_arrival_s(), horizon_s)
                if now_s >= horizon_s:
                    break
                self._servers_until(now_s)
                engine.admit(now_s)
                self.changed, full = True, True
            self._point(now_s, full)
            if full:
                round_end_s = self._round_end_s(now_s)
            idle = 0 if len(self.members) else idle + 1
            next_s = self._next_s(now_s, min(round_end_s, horizon_s))
            if not np.isfinite(next_s) or (idle > PATIENCE and self._hopeless()):
                engine.recorder.say("stopped: the policy gives nothing to the jobs that are left")
                break
            event = self._advance(now_s, next_s)
            now_s = next_s
            full = now_s >= round_end_s or (self.outright and self.at_once and event)
            while not full and not (self.at_once and event) and now_s < min(round_end_s, horizon_s):
                next_s = self._next_s(now_s, min(round_end_s, horizon_s))
                event = self._advance(now_s, next_s)
                now_s = next_s
                full = now_s >= round_end_s
        self._release(self.members, now_s)
        engine.ledger.close_isolated(engine.active)
        return now_s

    def _round_end_s(self, now_s: float) -> float:
        """The next full point. Quiet rounds are skipped, up to the end of the round in which something happens."""
        round_s = self.engine.options.round_s
        if not self.ticks:
            return np.inf
        if self.stride == 1:
            return now_s + round_s
        event_s = min(self.engine.next_arrival_s(), self.server_failures.next_s())
        if len(self.members):
            event_s = min(event_s, float(self._finish_s(now_s, self.members).min()))
        rounds = min(float(self.stride), np.ceil((event_s - now_s) / round_s))
        return float(now_s + max(rounds, 1.0) * round_s)

    def _hopeless(self) -> bool:
        return not np.isfinite(self.engine.next_arrival_s()) and not self.server_failures.down

    def _next_s(self, now_s: float, limit_s: float) -> float:
        """The end of this segment: the limit, or an event before it that must be seen when it happens."""
        next_s = min(limit_s, self.server_failures.next_s())
        if self.at_once:
            next_s = min(next_s, self.engine.next_arrival_s())
        if (
            self.at_once or (self.engine.floor.second >= 0).any()
        ):  # a pair's survivor speeds up when it is alone
            if len(self.members):
                next_s = min(next_s, float(self._finish_s(now_s, self.members).min()))
        if self.job_failures.happen and len(self.members):
            starts = np.maximum(self.ready_s[self.members], now_s)
            next_s = min(next_s, float((starts + self.job_failures.left_s[self.members]).min()))
        return max(next_s, now_s)

    def _finish_s(self, now_s: float, keys: Ints) -> Floats:
        left = self.engine.ledger.steps_left[keys]
        return np.asarray(np.maximum(self.ready_s[keys], now_s) + left / self.rate[keys])

    def _advance(self, now_s: float, next_s: float) -> bool:
        """Move on to ``next_s``; whether something happened that a filling point should answer."""
        engine, g, keys = self.engine, self.engine.ledger, self.members
        happened = False
        if len(keys):
            finish_s = self._finish_s(now_s, keys)
            ends = finish_s <= next_s
            until_s = np.where(ends, finish_s, next_s)
            trained_s = np.maximum(until_s - np.maximum(self.ready_s[keys], now_s), 0.0)
            held_s = until_s - now_s
            steps = np.where(ends, g.steps_left[keys], trained_s * self.rate[keys])
            g.steps_left[keys] = np.where(ends, 0.0, g.steps_left[keys] - steps)
            scale = g.scale[keys]
            g.overhead_s[keys] += (held_s - trained_s) * scale
            g.useful_s[keys] += steps / self.fair_rate[keys] * scale
            self._attain(keys, held_s)
            if not self.outright:
                self._serve(keys, held_s)
            self.trained_s[keys] += trained_s
            if self.job_failures.happen:
                self.job_failures.left_s[keys] -= trained_s
            if ends.any():
                happened = True
                self._finish(keys[ends], finish_s[ends])
        while self.server_failures.next_s() <= next_s:
            self._server_event(*self.server_failures.pop())
            happened = True
        if self.job_failures.happen:
            happened |= self._crashes(next_s)
        if len(engine.admit(next_s)):
            self.changed, happened = True, True
        return happened

    def _serve(self, keys: Ints, held_s: Floats) -> None:
        """Tell the queue who had which type; a pair is one unit, with the time of its longer member."""
        floor, unit = self.engine.floor, self.engine.unit_of[keys]
        second = floor.second[unit]
        kind = np.where(floor.kind[unit] >= 0, floor.kind[unit], self.queue.share[keys].argmax(axis=1))
        once = (second < 0) | (floor.first[unit] == keys)
        self.queue.receive(floor.first[unit][once], second[once], kind[once], held_s[once])

    def _servers_until(self, now_s: float) -> None:
        """Failures and repairs while nobody was here."""
        while self.server_failures.next_s() <= now_s:
            self._server_event(*self.server_failures.pop())

    def _server_event(self, time_s: float, server: int, works: bool) -> None:
        engine = self.engine
        engine.up[server] = engine.servers.size[server] if works else 0
        if works:
            started = next(d for d in reversed(engine.recorder.downtime) if d[0] == server)
            engine.recorder.downtime[engine.recorder.downtime.index(started)] = (server, started[1], time_s)
        else:
            engine.recorder.downtime.append((server, time_s, np.inf))
            held = engine.floor.held
            unit = np.unique(held.unit[held.server == server])
            keys = self.members[np.isin(engine.unit_of[self.members], unit)]
            self._lose(keys, time_s)
        self.changed = True

    def _crashes(self, now_s: float) -> bool:
        keys = self.members[self.job_failures.left_s[self.members] <= 1e-9]
        for key in keys.tolist():
            self.job_failures.draw(key)
        self._lose(keys, now_s)
        return bool(len(keys))

    def _lose(self, keys: Ints, now_s: float) -> None:
        """Jobs fall back to their last checkpoint and wait."""
        if not len(keys):
            return
        g, every = self.engine.ledger, self.engine.options.restart.checkpoint_interval_s
        lost_s = self.trained_s[keys] if every is None else np.mod(self.trained_s[keys], every)
        room = self.engine.problem.total_steps[keys] - g.steps_left[keys]
        steps = np.minimum(lost_s * self.rate[keys], room)
        device_s = steps / self.fair_rate[keys] * g.scale[keys]
        g.steps_left[keys] += steps
        g.useful_s[keys] -= device_s
        g.lost_s[keys] += device_s
        g.failures[keys] += 1
        self._release(keys, now_s)
        self.trained_s[keys] = 0.0
