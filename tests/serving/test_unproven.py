"""A request that was refused, or kept waiting, by what nobody knew for sure is a miss once that proves wrong."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import TooLarge, Unavailable, Untried
from eunomia.serving.tenants import unproven
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.holding import AGAIN_S
from eunomia.serving.tenants.unsized import Later, Unsized, Wait
from tests.serving.test_holding import BRONZE, GOLD, Desk

TOKENS = 3000


class Refusing(Desk):
    """``misses`` of bronze."""

    def __init__(self) -> None:
        super().__init__(GOLD, BRONZE)
        self.holding.unproven.missed = self.dispatcher.missed

    @property
    def misses(self) -> int:
        return self.dispatcher.indicators[self.pairs["bronze"]].count

    def job(self, left_s: float = math.inf, tokens: int = TOKENS) -> Job:
        """A request of bronze."""
        now_s = self.clock.now_s()
        job = Job(self.pairs["bronze"], self.network, now_s, now_s + left_s, sizes=(tokens,))
        self.dispatcher.classify(job)
        return job

    def refused(self, left_s: float = math.inf, tokens: int = TOKENS) -> Job:
        """One that is."""
        job = self.job(left_s, tokens)
        with pytest.raises((TooLarge, Untried)):
            self.holding.check(BRONZE, job)
        return job

    async def answered(self, took_s: float, tokens: int = TOKENS) -> None:
        """One that was let in has run."""
        job = self.job(tokens=tokens)
        self.costs.doubt(self.network, job.cost_row)
        self.costs.learn(self.network, 0, 0, [took_s], 1, job.cost_row)
        self.holding.retired("bronze", job, answered=True)
        await asyncio.sleep(0)


def test_refusals_are_misses_once_an_answered_one_proves_them_wrong() -> None:
    async def main() -> None:
        desk = Refusing()
        assert desk.ask(BRONZE, TOKENS), "the first runs, to see what it takes"
        for left_s in (math.inf, 1.0, 0.001):
            desk.refused(left_s)
        desk.refused(tokens=8000)
        desk.clock.time_s += AGAIN_S
        await desk.answered(0.06)
        assert not desk.misses, "it is as long as was said"
        await desk.answered(0.002, 1)
        assert not desk.misses, "another size says nothing of it"
        await desk.answered(0.002)
        assert desk.misses == 2, "the third could not have been answered in its time"
        await desk.answered(0.002)
        assert desk.misses == 2, "each counts once"
        await desk.answered(0.002, 8000)
        assert desk.misses == 3

    asyncio.run(main())


def test_a_refusal_is_judged_by_what_others_were_promised_then() -> None:
    """Once gold had no objective any more, all that was refused for its sake was a miss."""

    async def main() -> None:
        desk = Refusing()
        desk.ask(BRONZE, TOKENS)
        desk.refused()
        desk.clock.time_s += AGAIN_S
        desk.holding.most_s = math.inf
        await desk.answered(0.06)
        assert not desk.misses
        await desk.answered(0.002)
        assert desk.misses == 1

    asyncio.run(main())


def test_of_many_refusals_the_last_ones_are_remembered() -> None:
    async def main() -> None:
        desk = Refusing()
        desk.ask(BRONZE, TOKENS)
        for _ in range(unproven.MOST + 5):
            desk.refused()
        await desk.answered(0.002)
        assert desk.misses == desk.dispatcher.indicators[desk.pairs["bronze"]].count == 100, "of its window"
        assert not desk.holding.unproven._of

    asyncio.run(main())


@pytest.mark.parametrize(("took_s", "misses", "changes"), [
    (0.002, 1, {}), (0.02, 0, {}), (0.08, 0, {}), (None, 0, {}),
    (0.002, 0, {"payload": "inside"}),  # it has its answer elsewhere, which counts
    (0.002, 0, {"hard_timeout_s": 0.004}), (0.002, 1, {"hard_timeout_s": 0.006}),  # its client would not wait
])  # fmt: skip
def test_who_waited_until_its_deadline_has_missed_it_if_its_size_fits(
    took_s: float | None, misses: int, changes: dict[str, Any]
) -> None:
    """It was told to come again, and no indicator moved."""

    async def main() -> None:
        desk, known = Refusing(), asyncio.get_running_loop().create_future()
        job, refused = replace(desk.job(0.01), **changes), list[Any]()
        unsized = Unsized(desk.clock, Bodies(2**20), set(), lambda job: None, desk.holding.unproven)
        later = Later("bronze", job, 1, lambda: Wait(known), refused.append)
        with pytest.raises(Unavailable, match="not known before"):
            await unsized.answer(later, Wait(known))
        assert len(refused) == 1 and not desk.misses
        if took_s is not None:
            desk.costs.learn(desk.network, 0, 0, [took_s], 1, job.cost_row)
        known.set_result(None)
        await asyncio.sleep(0)
        assert desk.misses == misses

    asyncio.run(main())


def test_all_of_a_class_are_judged_at_once_and_again_by_what_is_known_later() -> None:
    """A tenant had the event loop look for 20 ms whether each of its requests would have fitted."""

    async def main() -> None:
        desk, known, looks = Refusing(), asyncio.get_running_loop().create_future(), list[int]()
        desk.costs.by_row.add(desk.network.index)
        fits = desk.holding._fits
        desk.holding.unproven._fits = lambda *asked: looks.append(asked[1].batch) or fits(*asked)  # type: ignore[func-returns-value]
        for left_s in (0.02, 0.02, 1.0):
            job = replace(desk.job(left_s), batch=16)
            desk.dispatcher.classify(job)
            desk.holding.unproven.note("bronze", job, known)
        desk.costs.learn(desk.network, 0, 0, [0.006], 1, desk.costs.row_of(desk.network, 1, (TOKENS,)))
        known.set_result(None)
        await asyncio.sleep(0)
        assert looks == [16] and desk.misses == 1, "all rows take 96 ms"
        assert [(one.batch, one.later) for one, *_ in desk.holding.unproven._of["bronze"]] == [(16, 0)] * 2
        assert not desk.holding.unproven._awaited
        desk.holding.retired("bronze", job, answered=True)
        await asyncio.sleep(0)
        assert looks == [16, 16] and desk.misses == 1

    asyncio.run(main())


def test_it_is_judged_by_the_network_as_it_is_cut_then() -> None:
    async def main() -> None:
        desk, known = Refusing(), asyncio.get_running_loop().create_future()
        job, new = desk.job(1.0), desk.costs.add("net", 2, sizes=[TOKENS])
        desk.costs.measured(new, 0, [0.01, 0.01])

        def follow(job: Job) -> None:
            job.network, job.cost_row = new, new.first_row

        desk.holding.unproven.follow = follow
        desk.costs.learn(desk.network, 0, 0, [0.1], 1, job.cost_row)
        desk.holding.unproven.note("bronze", job, known)
        known.set_result(None)
        await asyncio.sleep(0)
        assert desk.misses == 1

    asyncio.run(main())
