"""The points of the realistic mode: who gets which devices. See :mod:`.realistic_mode`."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.engine import Engine
from eunomia.cluster.gangs import mixed_gangs
from eunomia.cluster.leases import MIXED, Leases
from eunomia.cluster.placement import Held
from eunomia.cluster.rounds import Units, queue_order
from eunomia.contract.allocation import Allocation, Holdings
from eunomia.core.arrays import Ints

SHUFFLE_STREAM = 7


class Points(Leases):
    """Leases that are given anew at points in time, outright or by shares and the queue of rounds."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.rng = np.random.default_rng([engine.options.seed, SHUFFLE_STREAM])
        self.allocated_s = -np.inf

    def _point(self, now_s: float, full: bool) -> None:
        """Hand out devices."""
        engine = self.engine
        if not len(engine.active):
            return
        if self.changed:
            rows = engine.active
            speed = engine.beliefs.true_speed(rows, engine.ledger.scale[rows])
            engine.ledger.settle_isolated(rows, speed, engine.problem.cluster.counts)
        if full and len(self.members):
            units = engine.unit_of[self.members]
            plain = engine.floor.kind[units] >= 0
            engine.beliefs.observe(self.members[plain], engine.floor.kind[units[plain]])
        if self.outright:
            if full:
                self._outright(now_s)
        else:
            self._by_shares(now_s, full)
        self.changed = False

    def _outright(self, now_s: float) -> None:
        engine = self.engine
        keys = engine.active
        answer = engine.ask(now_s)
        devices = answer.devices
        assert devices is not None
        scale = self._new_scales(answer)
        kind = np.where(devices.any(axis=1), devices.argmax(axis=1), -1)
        kind[(devices > 0).sum(axis=1) > 1] = MIXED
        first, second = keys, np.full(len(keys), -1, np.int64)
        if answer.pairs is not None and len(answer.pairs.first):
            pairs = answer.pairs
            used = pairs.shares.any(axis=1)
            first = np.concatenate([first, keys[pairs.first[used]]])
            second = np.concatenate([second, keys[pairs.second[used]]])
            kind = np.concatenate([kind, pairs.shares[used].argmax(axis=1)])
        held = self._given(answer.servers, first, kind, devices) if answer.servers is not None else None
        zero = np.zeros((len(first), devices.shape[1]))
        shown = Units(
            first, second, np.concatenate([devices, zero[len(devices) :]]).astype(float), zero, zero
        )
        engine.recorder.choice(now_s, shown, kind, kind != -1, devices, answer.reasons)
        self._stand(now_s, first, second, kind, scale, held, devices)

    def _new_scales(self, answer: Allocation) -> Ints:
        """Workers of every job from now on, by key."""
        g = self.engine.ledger
        if answer.scale is None:
            return g.scale
        scale = g.scale.copy()
        scale[self.engine.active] = answer.scale
        return scale

    def _given(self, servers: Holdings, first: Ints, kind: Ints, devices: Ints) -> Held:
        """Servers that the policy named itself."""
        held = Held.from_rows(len(first), servers.job, servers.server, servers.count)
        used = np.bincount(servers.server, servers.count, len(self.engine.up))
        assert (used <= self.engine.up).all(), "the policy named devices that are taken twice or do not work"
        return held

    def _by_shares(self, now_s: float, full: bool) -> None:
        engine, queue, options = self.engine, self.queue, self.engine.options
        scale = engine.ledger.scale
        if self.changed and now_s - self.allocated_s >= options.min_gap_s:
            queue.promise(engine.active, now_s)
            queue.reset(engine.active, now_s)
            answer = engine.ask(now_s)
            queue.set_shares(engine.active, answer)
            scale = self._new_scales(answer)
            self.allocated_s = now_s
        rows = engine.active
        queue.promise(rows, now_s)
        throughput = engine.beliefs.speed(rows, scale[rows])
        units = queue.units(rows, throughput)
        types = list(range(len(engine.problem.cluster.types)))
        if engine.needs.agnostic:
            self.rng.shuffle(types)
        self._favour_standing(units)
        unit, kind = queue_order(
            units, types, one_queue=options.queue == "global" and not engine.needs.agnostic
        )
        taken = np.zeros(len(engine.problem), np.bool_)
        free = engine.capacity()
        pinned = np.full(len(units.first), -1, np.int64)
        devices = np.zeros((len(rows), len(types)), np.int64)
        if not full:
            pinned = self._pinned(units)
            staying = np.flatnonzero(pinned >= 0)
            np.subtract.at(free, pinned[staying], scale[units.first[staying]])
            gangs = np.flatnonzero(pinned[: len(rows)] == MIXED)
            devices[gangs] = self._held_by_type(rows[gangs])
            free -= devices.sum(axis=0)
            taken[self.members] = True
        engine.ledger.scale = scale
        chosen = engine.choose(units, unit, kind, free, taken)
        chosen = np.where(pinned != -1, pinned, chosen)
        if options.cross_type != "off":
            devices += mixed_gangs(units, chosen, throughput, scale, free)
            chosen[: len(rows)][(devices > 0).sum(axis=1) > 1] = MIXED
        engine.recorder.choice(now_s, units, chosen, chosen != -1, devices)  # who stays counts as served
        self._stand(now_s, units.first, units.second, chosen, scale, None, devices)

    def _favour_standing(self, units: Units) -> None:
        """Credit for staying: turns become longer than a round."""
        where = self._pinned(units)
        standing = np.flatnonzero(where >= 0)
        if not self.queue.by_ratio:
            units.priority[standing, where[standing]] += self.queue.stickiness

    def _pinned(self, units: Units) -> Ints:
        """Type of each unit that runs now and stays, MIXED = on several, -1 = free to be placed."""
        engine = self.engine
        unit = engine.unit_of[units.first]
        same = unit >= 0
        same &= np.append(engine.floor.second, -9)[unit] == units.second
        return np.where(same, np.append(engine.floor.kind, -1)[unit], -1)

    def _held_by_type(self, keys: Ints) -> Ints:
        """Devices that these jobs hold on each type, shape (n, J)."""
        engine = self.engine
        held = engine.floor.held.of(engine.unit_of[keys])
        devices = np.zeros((len(keys), len(engine.problem.cluster.types)), np.int64)
        np.add.at(devices, (held.unit, engine.servers.type[held.server]), held.count)
        return devices
