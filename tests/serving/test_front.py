"""What clients wait before their requests arrive is seen: how busy the front end is, and how late."""

from __future__ import annotations

import asyncio
import logging

import pytest

from eunomia.serving.fronts.rota import Rota
from eunomia.serving.observe import front
from eunomia.serving.observe.front import AGAIN_S, EVERY_S, SAMPLES, FrontEnd, used_s
from eunomia.serving.observe.metrics import Telemetry
from eunomia.serving.observe.turns import Turns
from eunomia.serving.rpc.opening import turns
from tests.patience import pauses, until_async, work
from tests.serving.wire import Wire, lane

REQUEST = b"POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"


def looked(found: FrontEnd, busy: float, looks: int = SAMPLES + 1, late_s: float = 0.0) -> FrontEnd:
    """So many looks at a thread that is busy for this share of the time."""
    for n in range(looks):
        found.look(n * EVERY_S, n * EVERY_S * busy, late_s)
    return found


def test_the_share_of_the_last_looks_and_their_longest_wait() -> None:
    found = FrontEnd()
    found.waited(0.3)
    assert looked(found, 0.5).busy == pytest.approx(0.5)
    assert found.late_s == 0.0, "the wait was before the first look"
    found.waited(0.2)
    found.waited(0.1)
    found.look(100.0, 100.0)
    assert found.late_s == 0.2
    assert found.busy_s == pytest.approx(1.5 + 97.0)
    for n in range(SAMPLES):
        found.look(101.0 + n, 100.0)
    assert found.busy == 0.0 and found.late_s == 0.0


def test_a_full_front_end_is_said_with_what_to_do_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    found = FrontEnd()
    with caplog.at_level(logging.WARNING):
        looked(found, 0.96, late_s=0.28)
        assert found.remark.startswith(
            "the front end is full (busy 96% of the last seconds, 280 ms late): clients wait before their requests"
        )
        assert "shared memory" in found.remark and found.facts()["full"] is True
        for n in range(SAMPLES + 1, SAMPLES + 1 + int(AGAIN_S / EVERY_S)):
            found.look(n * EVERY_S, n * EVERY_S * 0.96)
    assert [record.message[:21] for record in caplog.records] == ["the front end is full"] * 2


@pytest.mark.parametrize(("busy", "looks"), [(0.5, SAMPLES + 1), (0.96, SAMPLES)])
def test_a_front_end_with_time_to_spare_or_just_begun_is_not_called_full(busy: float, looks: int) -> None:
    found = looked(FrontEnd(), busy, looks, late_s=0.28)
    assert found.remark == "" and found.facts() == {
        "busy": busy, "late_ms": 280.0, "full": False, "remark": ""
    }  # fmt: skip


def test_prometheus_reads_share_and_waits() -> None:
    telemetry = Telemetry()
    looked(telemetry.front, 0.25)
    telemetry.front.waited(0.0)
    telemetry.front.waited(0.012)
    page = asyncio.run(telemetry.page())[0].decode()
    assert "# HELP eunomia_front_end_busy_ratio The same as a share of the last 3 s" in page
    assert "eunomia_front_end_busy_ratio 0.25" in page and "eunomia_front_end_busy_seconds_total 0.75" in page
    assert 'eunomia_front_end_late_seconds_bucket{le="0.0005"} 1.0' in page
    assert 'eunomia_front_end_late_seconds_bucket{le="0.015"} 2.0' in page
    assert "eunomia_front_end_late_seconds_sum 0.012" in page


def test_a_thread_that_works_is_busy_and_its_loop_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "EVERY_S", 0.01)
    found = FrontEnd()

    async def main() -> None:
        looking = asyncio.ensure_future(found.keep())
        await pauses(3)
        before_s = used_s()
        work(0.08)
        assert used_s() - before_s >= 0.08
        await until_async(lambda: found.late_s >= 0.05)
        looking.cancel()

    asyncio.run(main())
    assert found.busy_s > 0.05


@pytest.mark.parametrize("crowded", [True, False])
def test_a_request_counts_once_with_what_its_connection_waited(
    monkeypatch: pytest.MonkeyPatch, crowded: bool
) -> None:
    if crowded:
        monkeypatch.setattr("eunomia.serving.fronts.rota.Rota.over", property(lambda self: True))
    waits = list[float]()

    async def main() -> None:
        one = lane()
        one._rota.waited = waits.append
        one.transport = wire = Wire()
        one.data_received(REQUEST[:30])
        work(0.003)
        for _ in range(10):
            await asyncio.sleep(0)
        one.data_received(REQUEST[30:])
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(wire.sent) == 1

    asyncio.run(main())
    assert len(waits) == 1 and (waits[0] >= 0.003 if crowded else waits[0] < 0.003)


def test_a_message_that_waits_for_those_before_it_counts_its_wait() -> None:
    waits = list[float]()

    async def main() -> None:
        turn = turns(Rota(Turns(), most_s=0.0, waited=waits.append))
        both = [asyncio.ensure_future(turn("gold")) for _ in range(2)]
        asyncio.get_running_loop().call_soon(work, 0.003)
        await asyncio.gather(*both)

    asyncio.run(main())
    assert len(waits) == 2 and min(waits) >= 0.003
