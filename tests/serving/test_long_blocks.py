"""Sizes whose cut was timed and has a block that is too long: nobody waits, or runs, to find that out again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.devices.pool import DevicePool
from tests.serving.test_by_size import Cut


def test_what_a_cut_took_is_known_to_all_and_no_request_runs_to_find_it_out() -> None:
    """The first of each tenant held the device for as long as it is, and was ended there."""
    cut, times = (
        Cut(LongBlock("it takes 60 ms", 0.06), LongBlock("it takes 30 ms", 0.03), None, None),
        (400, 399, 192),
    )
    pool: Any = SimpleNamespace(_closing=False, by_size=cut.by_size, by_request=Mock())
    pool.by_request.wanted.return_value = None
    pool.ladder = SimpleNamespace(towards=lambda tenant, job, bound_s: False)  # in vain
    assert cut.asked(400) and [length for _, length in cut.loads] == [400, 192, 96]
    assert [cut.by_size.longest_s(cut.job(length)) for length in times] == [0.06, 0.03, 0.03]
    assert cut.by_size.longest_s(cut.job(191)) == 0.0
    cut.now_s = 30.0
    for tenant in ("gold", "bronze"):
        assert DevicePool.explore(pool, tenant, cut.job(400), 0.025) is True, "too long, by what was measured"
    assert len(cut.loads) == 3
    assert DevicePool.explore(pool, "gold", cut.job(500), 0.1) is False, "who may hold it for longer can try"
    assert cut.asked(191, "bronze")
    cut.now_s = 100.0
    assert cut.by_size.longest_s(cut.job(400)) == 0.0, "a busy machine may have been the cause"


def test_who_waits_with_sizes_that_are_too_long_hears_it_before_a_cut_by_smaller_ones() -> None:
    """It waited for up to three more cuts, of which none helps it."""

    async def main() -> None:
        cut = Cut(LongBlock("it takes 60 ms", 0.06), None)
        long, short = (cut.by_size.wanted("gold", cut.job(length), 0.025) for length in (400, 300))
        assert long is not None and long is short
        await long
        assert len(cut.loads) == 1 and cut.by_size.wanted("gold", cut.job(400), 0.025) is None
        again = cut.by_size.wanted("gold", cut.job(300), 0.025)
        assert again is not None
        await again
        assert cut.model.shapes == {"x": [1, 192]} and cut.by_size._ended is None

    asyncio.run(main())


def test_tenants_take_turns_at_cuts_however_many_networks_one_of_them_asks_for() -> None:
    """Who came last waited for the networks of all before, of one tenant's all."""

    async def main() -> None:
        cut = Cut(None, None, None)
        for name in ("second", "third", "other"):
            network = replace(cut.model.network, name=name)
            model = SimpleNamespace(**{**vars(cut.model), "network": network, "label": f"{name}#1"})
            cut.loading.models[name] = model

        def wanted(tenant: str, name: str) -> Any:
            job = cut.job(400)
            job.network = cut.loading.models[name].network
            return cut.by_size.wanted(tenant, job, 0.025)

        first = wanted("gold", "net")
        assert wanted("gold", "second") is wanted("gold", "third") is wanted("bronze", "other") is first
        await first
        assert wanted("gold", "second") is not None and cut.by_size._ended is None, "it is not its turn"
        assert wanted("bronze", "other") is cut.by_size._ended
        cut.now_s += 10.0
        await cut.by_size._ended
        assert wanted("gold", "second") is cut.by_size._ended is not None

    asyncio.run(main())
