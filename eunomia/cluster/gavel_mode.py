"""Gavel's simulator, rule by rule: for parity, not for conclusions (spec/cluster.md 3 and 4.1; OSDI 2020 code).

A round ends with its longest micro-task; steps per round are floor(T * 360); arrivals join between rounds; shares
are computed anew when a job arrived or left and 1920 s have passed, or at time 0. Kept as they are in the code:

* after an idle gap the first round's time received includes the gap;
* when the last job has arrived and nothing runs, a reset is forced;
* a job without shares yet that is chosen for lack of others holds its devices for a round and does not run.

With ``drop_rule``: a last micro-task with fewer steps than workers fails, and after 5 failures in a row the job is
removed and counted as dropped. Without it, such a job finishes.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from eunomia.cluster.engine import Engine, Floor
from eunomia.cluster.placement import Held, same_places
from eunomia.cluster.rounds import RoundQueue, Units, queue_order
from eunomia.contract.allocation import Allocation
from eunomia.core.arrays import Floats, Ints

MAX_FAILED_ATTEMPTS = 5
SHUFFLE_STREAM = 5  # Gavel seeds the order of types with seed + 5


class GavelMode:
    """One run in compatible mode."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        options = engine.options
        types = len(engine.problem.cluster.types)
        self.queue = RoundQueue(len(engine.problem), types, options.round_s, "ratio")
        self.shuffler = random.Random(options.seed + SHUFFLE_STREAM)
        self.round_s = options.round_s
        self.attempts = np.zeros(len(engine.problem), np.int64)
        self.changed = True
        self.started_s = 0.0  # of the round, as Gavel's bookkeeping sees it
        self.ended_s: float | None = None
        self.units: Units | None = None
        self.finish_s = np.zeros(0)  # (running,) of this round's micro-tasks
        self.running = np.zeros(0, np.int64)  # units
        self.steps = np.zeros((0, 2))  # of both members

    def run(self) -> float:
        """Simulate to the end; the time of it."""
        engine = self.engine
        now_s = float(engine.problem.arrival_s[0])
        idle = 0
        while engine.arrived < len(engine.problem) or len(engine.active):
            arrival_s = engine.next_arrival_s()
            if len(self.running):
                if self.ended_s is not None:
                    self.started_s = self.ended_s
                now_s = self.ended_s = float(self.finish_s.max())
            elif np.isfinite(arrival_s):
                now_s = arrival_s
            if not np.isfinite(arrival_s) and not len(self.running):
                self.queue.reset_s = 0.0  # forces a reset
            self._finish_round()
            if engine.options.horizon_s is not None and now_s >= engine.options.horizon_s:
                break
            if len(engine.admit(now_s)):
                self.changed = True
            if not len(engine.active) and engine.arrived == len(engine.problem):
                break
            self._begin_round(now_s)
            idle = 0 if len(self.running) else idle + 1
            if idle > 2 and not np.isfinite(engine.next_arrival_s()):
                engine.recorder.say("stopped: the policy gives nothing to the jobs that are left")
                break
        return now_s

    def _finish_round(self) -> None:
        """Book the micro-tasks that ran, latest first, as Gavel's heap does."""
        engine, g, units = self.engine, self.engine.ledger, self.units
        if not len(self.running) or units is None:
            return
        order = np.lexsort((units.first[self.running], -self.finish_s))
        ended = self._one_by_one(order, units) if engine.options.drop_rule else self._at_once(order, units)
        if ended:
            keys = np.array(sorted(ended), np.int64)
            g.close_isolated(keys)
            engine.dismiss(keys)
            self.queue.leave(keys)
            self.changed = True

    def _at_once(self, order: Ints, units: Units) -> list[int]:
        """Book micro-tasks none of which can fail; keys of jobs that ended."""
        g, unit = self.engine.ledger, self.running[order]
        finish_s, members = self.finish_s[order], np.stack([units.first[unit], units.second[unit]], axis=1)
        kind = self.engine.floor.kind[unit]
        self.queue.receive(members[:, 0], members[:, 1], kind, finish_s - self.started_s)
        there = members >= 0
        keys = members[there]
        g.steps_left[keys] -= self.steps[order][there]
        done = g.steps_left[keys] <= 0
        g.finish_s[keys[done]] = np.stack([finish_s, finish_s], axis=1)[there][done]
        return [int(key) for key in keys[done]]

    def _one_by_one(self, order: Ints, units: Units) -> list[int]:
        """The same where some may fail."""
        engine, g = self.engine, self.engine.ledger
        ended: list[int] = []
        for i in order.tolist():
            unit = self.running[i]
            seconds = self.finish_s[i] - self.started_s
            kind = engine.floor.kind[unit]
            members = [m for m in (units.first[unit], units.second[unit]) if m >= 0]
            if self._fails(members, self.steps[i]):
                self.changed = True
                if len(members) == 1:
                    ended += self._count_failure(int(members[0]), float(self.finish_s[i]))
                continue
            self.queue.receive(
                units.first[[unit]], units.second[[unit]], np.array([kind]), np.array([seconds])
            )
            for m, steps in zip(members, self.steps[i], strict=False):
                self.attempts[m] = 0
                g.steps_left[m] -= steps
                if g.steps_left[m] <= 0:
                    g.finish_s[m] = self.finish_s[i]
                    ended.append(int(m))
        return ended

    def _fails(self, members: list[int], steps: Floats) -> bool:
        """Gavel's trap: a worker that would get no step makes the micro-task fail."""
        if not self.engine.options.drop_rule:
            return False
        scale = int(self.engine.ledger.scale[members[0]])
        return scale > 1 and any(int(s) // scale <= 0 for s in steps[: len(members)])

    def _count_failure(self, key: int, now_s: float) -> list[int]:
        g = self.engine.ledger
        self.attempts[key] += 1
        g.failures[key] += 1
        if self.attempts[key] < MAX_FAILED_ATTEMPTS:
            return []
        g.dropped[key] = True
        name = self.engine.problem.jobs[key].job_id
        self.engine.recorder.say(
            f"job '{name}' was dropped at {now_s:.0f} s by Gavel's rule for last micro-tasks"
        )
        return [key]

    def _allocate(self, now_s: float) -> None:
        """Recompute shares if something changed and the gap has passed."""
        engine, queue = self.engine, self.queue
        due = now_s - queue.reset_s >= engine.options.min_gap_s or queue.reset_s == 0.0
        if not (self.changed and due):
            return
        queue.reset(engine.active, now_s)
        rows = engine.active
        engine.ledger.settle_isolated(rows, engine.problem.speed[rows], engine.problem.cluster.counts)
        answer = engine.ask(now_s)
        if engine.needs.answer == "devices":
            assert answer.devices is not None
            pairs = answer.pairs
            if pairs is not None:
                pairs = replace(pairs, shares=(pairs.shares > 0).astype(np.float64))
            answer = Allocation(shares=(answer.devices > 0).astype(np.float64), pairs=pairs)
        queue.set_shares(rows, answer)
        self.changed = False

    def _begin_round(self, now_s: float) -> None:
        engine, g, queue = self.engine, self.engine.ledger, self.queue
        self._allocate(now_s)
        rows = engine.active
        throughput = engine.beliefs.speed(rows, g.scale[rows])
        units = queue.units(rows, throughput)
        types = list(range(len(engine.problem.cluster.types)))
        if engine.needs.agnostic:
            self.shuffler.shuffle(types)
        unit, kind = queue_order(units, types, one_queue=engine.options.queue == "global")
        if engine.needs.answer == "devices" and not engine.needs.fills:  # without a place there is no turn
            wanted = units.priority[unit, kind] > 0.0
            unit, kind = unit[wanted], kind[wanted]
        taken = np.zeros(len(engine.problem), np.bool_)
        chosen = engine.choose(units, unit, kind, engine.capacity(), taken)
        shared = queue.has_share[units.first]
        ran = (chosen >= 0) & shared
        engine.recorder.choice(now_s, units, chosen, ran)
        kinds = np.where(ran, chosen, -1)
        scale = g.scale[units.first]
        before = engine.before(units.first, units.second)
        held = engine.servers.place(kinds, scale, before, engine.up.copy(), engine.options.placement)
        self._count(units, np.flatnonzero(ran), before, held)
        engine.stand(Floor(units.first, units.second, kinds, scale, held))
        self.units = units
        self._run(now_s, np.flatnonzero(ran), units, throughput)

    def _count(self, units: Units, ran: Ints, before: Held, held: Held) -> None:
        """Starts, moves and preemptions; a lease that is extended is none of them."""
        engine, g = self.engine, self.engine.ledger
        new = ran[~same_places(before, held, ran)]
        keys = np.concatenate([units.first[new], units.second[new]])
        keys = keys[keys >= 0]
        g.starts[keys] += 1
        g.moves[keys[engine.unit_of[keys] >= 0]] += 1
        was = np.flatnonzero(engine.unit_of >= 0)
        now = np.concatenate([units.first[ran], units.second[ran]])
        waits = was[engine.among(was, engine.active) & ~engine.among(was, now[now >= 0])]
        g.preemptions[waits] += 1

    def _run(self, now_s: float, running: Ints, units: Units, throughput: Floats) -> None:
        """Steps and finish of each micro-task; book devices held."""
        engine, g = self.engine, self.engine.ledger
        kind = engine.floor.kind[running]
        alone = units.second[running] < 0
        rate = np.zeros((len(running), 2))
        place = np.minimum(running, len(engine.active) - 1)
        rate[:, 0] = throughput[place, kind]
        pairs = running[~alone] - len(engine.active)
        rate[~alone] = self.queue.pair_speed[pairs, kind[~alone]]
        members = np.stack([units.first[running], units.second[running]], axis=1)
        steps = np.minimum(np.floor(rate * self.round_s), g.steps_left[members])
        steps[alone, 1] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            took = np.where(rate > 0.0, steps / rate, 0.0)
        took[alone, 1] = 0.0
        self.running, self.steps = running, steps
        self.finish_s = now_s + took.max(axis=1) if len(running) else np.zeros(0)
        self._book(now_s, members, kind, took)

    def _book(self, now_s: float, members: Ints, kind: Ints, took: Floats) -> None:
        engine, g = self.engine, self.engine.ledger
        for side in (0, 1):
            used = members[:, side] >= 0
            keys, seconds = members[used, side], took[used].max(axis=1)
            device_s = seconds * g.scale[keys] / (members[used] >= 0).sum(axis=1)
            g.attained_s[keys, kind[used]] += device_s
            g.useful_s[keys] += device_s
            fresh = np.isnan(g.first_start_s[keys])
            g.first_start_s[keys[fresh]] = now_s
        unit = engine.floor.held.unit
        place = np.full(len(engine.floor.kind), -1, np.int64)
        place[self.running] = np.arange(len(self.running))
        row = place[unit]
        end = self.finish_s[row]
        engine.recorder.lease(
            engine.floor.first[unit],
            engine.floor.kind[unit],
            engine.floor.held.server,
            engine.floor.held.count,
            np.full(len(unit), now_s),
            end,
        )
