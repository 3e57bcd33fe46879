"""Leases of the realistic mode: who stands where since when, how fast, and what starting, moving and ending cost."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.engine import Engine, Floor
from eunomia.cluster.gangs import gang_speed
from eunomia.cluster.placement import Held, same_places, spread_speed
from eunomia.cluster.rounds import RoundQueue
from eunomia.core.arrays import Floats, Ints

MIXED = -2  # stands on several types
MOST_SKIPPED = 64  # rounds


class Leases:
    """The floor of one run, and what every job that stands on it has."""

    def __init__(self, engine: Engine) -> None:
        self.engine, options = engine, engine.options
        jobs, types = len(engine.problem), len(engine.problem.cluster.types)
        self.queue = RoundQueue(jobs, types, options.round_s, options.priority, options.stickiness)
        self.outright = engine.needs.answer == "devices"
        self.rate = np.zeros(jobs)  # steps/s of training time
        self.ready_s = np.zeros(jobs)  # until then: overhead
        self.lease_s = np.zeros(jobs)  # start of the present lease
        self.trained_s = np.zeros(jobs)  # training time since the last stop, for checkpoints
        self.fair_rate = np.ones(jobs)  # consolidated speed on the present type, for useful time
        self.members = np.zeros(0, np.int64)  # keys that hold devices
        self.changed = True
        self.stride = 1  # rounds until the next full point; more only while nobody waits and nobody moves

    # --- beginnings

    def _stand(
        self,
        now_s: float,
        first: Ints,
        second: Ints,
        kind: Ints,
        scale: Ints,
        held: Held | None,
        devices: Ints | None,
    ) -> None:
        """Put units on servers; charge what that costs each job."""
        engine, g = self.engine, self.engine.ledger
        before = engine.before(first, second)
        size = scale[first]
        if held is None:
            free = engine.up.copy()
            gangs = np.flatnonzero(kind == MIXED)
            stay = standing_gangs(gangs, before, devices, free, engine.servers.type)
            held = engine.servers.place(
                np.maximum(kind, -1), size, before, free, engine.options.placement, engine.needs.sticky
            )
            if len(gangs):
                assert devices is not None
                new = np.setdiff1d(gangs, stay)
                held = gang_servers(
                    held, before, stay, new, devices, free, engine.servers.start, engine.servers.end
                )
        floor = Floor(first, second, kind, size, held)
        placed = np.flatnonzero(kind != -1)
        stays = placed[same_places(before, held, placed)]
        keys = np.sort(np.concatenate([first[placed], second[placed][second[placed] >= 0]]))
        fixed = np.concatenate([first[stays], second[stays][second[stays] >= 0]])
        left = self.members[~engine.among(self.members, keys)]
        moved = keys[~engine.among(keys, fixed)]
        was = engine.among(moved, self.members)
        g.preemptions[left] += 1
        resized = was & (scale[moved] != np.append(engine.floor.scale, 0)[engine.unit_of[moved]])
        g.moves[moved[was & ~resized]] += 1
        g.resizes[moved[resized]] += 1
        self._release(np.concatenate([left, moved[was]]), now_s)
        quiet = not len(left) and not len(moved) and len(keys) == len(engine.active) and not self.changed
        certain = self.outright or bool((self.queue.share[keys].max(axis=1, initial=0.0) > 1.0 - 1e-9).all())
        self.stride = min(2 * self.stride, MOST_SKIPPED) if quiet and certain else 1
        engine.ledger.scale = scale
        engine.stand(floor)
        self.members = keys
        self._start(moved, now_s)
        self._set_rates(placed, floor)

    def _start(self, keys: Ints, now_s: float) -> None:
        """Leases begin: overhead first."""
        g, restart = self.engine.ledger, self.engine.options.restart
        fresh = np.isnan(g.first_start_s[keys])
        self.ready_s[keys] = now_s + np.where(fresh, restart.warmup_s, restart.resume_s)
        self.lease_s[keys] = now_s
        self.trained_s[keys] = 0.0
        g.first_start_s[keys[fresh]] = now_s
        g.starts[keys] += 1

    def _set_rates(self, placed: Ints, floor: Floor) -> None:
        """True speeds where jobs stand now."""
        engine, p, g = self.engine, self.engine.problem, self.engine.ledger
        share = engine.options.restart.running_share
        level = engine.servers.level(floor.held, floor.kind, floor.scale)
        alone = placed[(floor.second[placed] < 0) & (floor.kind[placed] >= 0)]
        keys, kind = floor.first[alone], floor.kind[alone]
        speed = engine.beliefs.true_speed(keys, g.scale[keys])[np.arange(len(keys)), kind]
        spread = engine.beliefs.true_spread(keys, g.scale[keys])[np.arange(len(keys)), kind]
        spread = np.where(spread > 0.0, spread, speed)
        rate = spread_speed(engine.options.slowdown, level[alone], speed, spread)
        self.rate[keys], self.fair_rate[keys] = rate * share, np.maximum(speed, 1e-300)
        for u in placed[floor.kind[placed] == MIXED].tolist():
            key = floor.first[u]
            rows = slice(floor.held.pointer[u], floor.held.pointer[u + 1])
            used = np.bincount(
                engine.servers.type[floor.held.server[rows]], floor.held.count[rows], p.speed.shape[1]
            )
            self.rate[key] = gang_speed(p.speed[key], used, engine.options.cross_type) * share
            self.fair_rate[key] = self.rate[key]
        pairs = placed[floor.second[placed] >= 0]
        if len(pairs):
            assert p.beside is not None
            a, b, kind = floor.first[pairs], floor.second[pairs], floor.kind[pairs]
            for one, two in ((a, b), (b, a)):
                rate = p.beside[p.row[one], p.row[two], kind]
                self.rate[one] = np.maximum(rate, 1e-9) * share
                self.fair_rate[one] = p.speed[one, kind]

    # --- in between, and ends

    def _attain(self, keys: Ints, held_s: Floats) -> None:
        """Book device-seconds by type; gangs over several types by their servers."""
        engine, g = self.engine, self.engine.ledger
        unit = engine.unit_of[keys]
        kind = engine.floor.kind[unit]
        shared = np.where(engine.floor.second[unit] >= 0, 0.5, 1.0)  # a pair shares its devices
        plain = kind >= 0
        g.attained_s[keys[plain], kind[plain]] += (held_s * g.scale[keys] * shared)[plain]
        for key, u, s in zip(keys[~plain], unit[~plain], held_s[~plain], strict=True):
            held = engine.floor.held
            rows = slice(held.pointer[u], held.pointer[u + 1])
            np.add.at(g.attained_s[key], engine.servers.type[held.server[rows]], held.count[rows] * s)

    def _finish(self, keys: Ints, finish_s: Floats) -> None:
        engine, g = self.engine, self.engine.ledger
        g.finish_s[keys] = finish_s
        g.close_isolated(keys)
        self._end_leases(keys, finish_s)
        engine.dismiss(keys)
        self.queue.leave(keys)
        self.changed = True

    def _end_leases(self, keys: Ints, end_s: Floats) -> None:
        """Record what these jobs held and take it from them; the other member of a pair stays, alone."""
        engine = self.engine
        unit = engine.unit_of[keys]
        floor = engine.floor
        held = floor.held.of(unit)
        row = held.unit
        engine.recorder.lease(
            keys[row],
            engine.servers.type[held.server],
            held.server,
            held.count,
            self.lease_s[keys[row]],
            end_s[row],
        )
        engine.unit_of[keys] = -1
        both = floor.second[unit] >= 0
        other = np.where(floor.first[unit] == keys, floor.second[unit], floor.first[unit])[both]
        stays = other[engine.unit_of[other] >= 0]
        self.rate[stays] = self._alone_rate(stays)
        self.members = self.members[~engine.among(self.members, keys)]

    def _alone_rate(self, keys: Ints) -> Floats:
        """Speed of jobs left alone on the devices of their pair."""
        floor, engine = self.engine.floor, self.engine
        kind = floor.kind[engine.unit_of[keys]]
        speed = engine.beliefs.true_speed(keys, engine.ledger.scale[keys])
        return np.asarray(speed[np.arange(len(keys)), kind] * engine.options.restart.running_share)

    def _release(self, keys: Ints, now_s: float) -> None:
        if len(keys):
            self._end_leases(keys, np.full(len(keys), now_s))


def standing_gangs(gangs: Ints, before: Held, devices: Ints | None, free: Ints, server_type: Ints) -> Ints:
    """Gangs over several types that keep their servers: as many devices of each type as before, and all of them work.

    They choose before everybody else; ``free`` (S,) is changed.
    """
    stay = []
    for u in gangs.tolist():
        assert devices is not None
        rows = slice(before.pointer[u], before.pointer[u + 1])
        server, count = before.server[rows], before.count[rows]
        had = np.bincount(server_type[server], count, devices.shape[1])
        if len(server) and (had == devices[u]).all() and (count <= free[server]).all():
            free[server] -= count
            stay.append(u)
    return np.array(stay, np.int64)


def gang_servers(
    held: Held, before: Held, stay: Ints, new: Ints, devices: Ints, free: Ints, start: Ints, end: Ints
) -> Held:
    """Add servers for gangs over several types: those of before for ``stay``, else on each type the emptiest first."""
    units, servers, counts = [held.unit], [held.server], [held.count]
    for u in stay.tolist():
        rows = slice(before.pointer[u], before.pointer[u + 1])
        units.append(np.full(rows.stop - rows.start, u))
        servers.append(before.server[rows])
        counts.append(before.count[rows])
    for u in new.tolist():
        for j in np.flatnonzero(devices[u]).tolist():
            need = int(devices[u, j])
            for s in (start[j] + np.argsort(-free[start[j] : end[j]], kind="stable")).tolist():
                part = min(need, int(free[s]))
                if part:
                    free[s] -= part
                    need -= part
                    units.append(np.array([u]))
                    servers.append(np.array([s]))
                    counts.append(np.array([part]))
    rows_of = np.concatenate(units), np.concatenate(servers), np.concatenate(counts)
    return Held.from_rows(len(held.pointer) - 1, *rows_of)
