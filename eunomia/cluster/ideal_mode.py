"""The ideal mode: shares are applied exactly between events, as if devices could be divided without end.

The bound of the round mechanism: nobody waits for a turn, a gang, a server or a checkpoint. Shares of policies
that hand out
whole devices are 1 where they hold them.
"""

from __future__ import annotations

import numpy as np

from eunomia.cluster.engine import Engine


class IdealMode:
    """One run in ideal mode: shares are recomputed at every arrival and finish."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def run(self) -> float:
        """Simulate to the end, or to the horizon; the time of it."""
        engine, g, p = self.engine, self.engine.ledger, self.engine.problem
        horizon_s = np.inf if engine.options.horizon_s is None else engine.options.horizon_s
        now_s = engine.next_arrival_s()
        while now_s < horizon_s:
            engine.admit(now_s)
            keys = engine.active
            if not len(keys):
                if not np.isfinite(engine.next_arrival_s()):
                    break
                now_s = engine.next_arrival_s()
                continue
            g.settle_isolated(keys, p.speed[keys], p.cluster.counts)
            share, rate = self._rates(now_s)
            with np.errstate(divide="ignore"):
                finish_s = now_s + np.where(rate > 0.0, g.steps_left[keys] / rate, np.inf)
            next_s = min(float(finish_s.min()), engine.next_arrival_s(), horizon_s)
            if not np.isfinite(next_s):
                engine.recorder.say("stopped: the policy gives nothing to the jobs that are left")
                break
            self._advance(now_s, next_s, share, rate, finish_s)
            now_s = next_s
        g.close_isolated(engine.active)
        return float(min(now_s, horizon_s))

    def _rates(self, now_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Shares of time (M, J) held, pairs counted half, and steps/s."""
        engine, p = self.engine, self.engine.problem
        keys = engine.active
        answer = engine.ask(now_s)
        if answer.scale is not None:
            engine.ledger.scale[keys] = answer.scale
        if answer.shares is not None:
            share = answer.shares
        else:
            assert answer.devices is not None
            share = answer.devices / engine.ledger.scale[keys][:, None]
        rate = (engine.beliefs.true_speed(keys, engine.ledger.scale[keys]) * share).sum(axis=1)
        held = share.copy()
        if answer.pairs is not None and len(answer.pairs.first):
            assert p.beside is not None
            pairs = answer.pairs
            x = pairs.shares if answer.shares is not None else (pairs.shares > 0).astype(float)
            for one, two in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
                together = p.beside[p.row[keys[one]], p.row[keys[two]]]
                np.add.at(rate, one, (together * x).sum(axis=1))
                np.add.at(held, one, x / 2.0)
        return held, rate

    def _advance(self, now_s, next_s, share, rate, finish_s) -> None:  # type: ignore[no-untyped-def]
        engine, g = self.engine, self.engine.ledger
        keys, span_s = engine.active, next_s - now_s
        ends = finish_s <= next_s
        g.steps_left[keys] = np.where(ends, 0.0, g.steps_left[keys] - rate * span_s)
        held_s = share * span_s * g.scale[keys][:, None]
        g.attained_s[keys] += held_s
        g.useful_s[keys] += held_s.sum(axis=1)
        begins = np.isnan(g.first_start_s[keys]) & (rate > 0.0)
        g.first_start_s[keys[begins]] = now_s
        g.starts[keys[begins]] += 1
        done = keys[ends]
        g.finish_s[done] = finish_s[ends]
        g.close_isolated(done)
        engine.dismiss(done)
