"""A run that ends without an answer is paid for, and where it was long its like must pause: in words, never 500."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.serving.strange import write_networks
from eunomia.serving.devices.answers import Answers, Payload
from eunomia.serving.devices.arena import Arena, ArenaFull, Slot
from eunomia.serving.devices.by_request import ByRequest
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.devices.watching import LEAST_S
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Crowded, NoRoom, Refused
from eunomia.serving.server import Server
from eunomia.serving.tenants.vain import FEW, FIRST_S, FREE_S, LONGEST_S, PER, Vain
from tests.patience import PATIENCE_S, until
from tests.serving.live import ADMIN, SILVER, ask, running
from tests.serving.test_holding import BRONZE, GOLD, Desk
from tests.serving.test_holding import SILVER as OTHER

MIB = 1024**2


class Made:
    """Requests of one tenant; ``rows``: their classes of shapes, the larger the number."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.vain, self.network = Vain(self.clock), CostBook(1).add("n", 1)

    def job(self, row: int = 0) -> Job:
        return Job(0, self.network, self.clock.time_s, cost_row=row, sizes=(row + 1,))

    def pauses(self, tenant: str = "bronze", row: int = 0) -> float:
        """Seconds until the next may come; 0 = now."""
        try:
            self.vain.check(tenant, self.job(row))
        except Refused as error:
            assert error.http == 429 and error.retry_after_s is not None
            return error.retry_after_s
        return 0.0

    def close(self, row: int = 0, held_s: float = 1.0) -> bool:
        """What it held its device beyond what it may."""
        return self.vain.close("bronze", self.job(row), held_s, held_s)


def test_pauses_double_and_an_answer_ends_them() -> None:
    made = Made()
    assert made.pauses() == 0.0
    for n in range(10):
        assert made.close()
        pause_s = min(FIRST_S * 2.0**n, LONGEST_S) if not n else made.pauses()
        assert made.pauses() == pytest.approx(pause_s) and pause_s >= min(FIRST_S * 2.0**n, LONGEST_S)
        assert made.pauses("gold") == made.pauses(row=1) == 0.0, (
            "it is a matter of this tenant's and this size's"
        )
        made.clock.time_s += pause_s
        assert made.pauses() == 0.0, "one is let through"
        assert made.pauses() == pytest.approx(pause_s), "and not a crowd"
    waits = made.job()
    made.clock.time_s += 2.0 * LONGEST_S
    for _ in range(2):
        made.vain.check("bronze", waits)  # it is asked again once the server knows what its size takes
    made.vain.answered("bronze", made.job())
    assert [made.pauses() for _ in range(3)] == [0.0] * 3


def test_who_came_before_a_run_in_vain_says_nothing_of_those_after_it() -> None:
    """Cheap requests that were under way opened the class again at once."""
    made = Made()
    before, made.clock.time_s = made.job(), 1.0
    made.close()
    made.vain.answered("bronze", before)
    assert made.pauses() == pytest.approx(FIRST_S)


def test_a_short_run_in_vain_now_and_then_refuses_nobody() -> None:
    """One of 0.15 s in four seconds had its whole class refused for ten, or twenty: of its like 54 to 80 %."""
    made = Made()
    for _ in range(100):
        assert not made.close(held_s=0.15) and made.pauses() == 0.0
        made.vain.answered("bronze", made.job())
        made.clock.time_s += 4.0


def test_in_vain_a_tenant_has_a_few_percent_of_a_device_whatever_it_mixes() -> None:
    """A cheap answer after each opened the class, so that nothing bounded their share."""
    made, vain_s = Made(), 0.0
    while made.clock.time_s < 600.0:
        if made.pauses() or made.pauses():  # whoever is let through first is answered
            made.clock.time_s += 0.01
            continue
        made.vain.answered("bronze", made.job())
        made.close(held_s=0.2)
        made.clock.time_s += 0.2
        vain_s += 0.2
    assert vain_s < 0.06 * made.clock.time_s + FREE_S


def test_a_pause_is_in_proportion_to_what_was_held() -> None:
    made = Made()
    assert not made.close(held_s=FREE_S)
    assert made.close(held_s=0.1) and made.pauses() == pytest.approx(PER * (FREE_S + 0.1))
    other = Made()
    assert other.close(held_s=0.6) and other.pauses() == pytest.approx(PER * 0.1)
    killed = Made()
    assert killed.vain.close("bronze", killed.job(), 0.03, 0.005, killed=True)
    assert killed.pauses() == pytest.approx(FIRST_S), "a process had to go"


def test_who_tries_size_after_size_pauses_with_all() -> None:
    """A small input that was answered opened the network for those that had hung three devices."""
    made = Made()
    for row in range(5, 5 + FEW):
        assert made.pauses(row=100) == 0.0
        made.close(row)
    pause_s = made.pauses(row=100)
    assert pause_s >= FIRST_S and made.pauses("gold", 100) == 0.0
    made.clock.time_s += pause_s
    probe = made.job(2)
    made.vain.check("bronze", probe)
    assert made.pauses(row=8) > 0.0
    made.vain.answered("bronze", probe)
    assert [made.pauses(row=row) for row in (0, 2, 1)] == [0.0] * 3, "no larger ones"
    assert made.pauses(row=6) == 0.0 < made.pauses(row=7), "a larger one at a time"
    made.close(6)
    assert made.pauses(row=6) >= 2.0 * FIRST_S and made.pauses(row=2) == 0.0
    made.close(1)
    assert made.pauses(row=2) > 0.0, "as large as one that was in vain"


def test_from_a_third_death_on_all_sizes_pause_whoever_it_was() -> None:
    made = Made()
    for row in range(FEW):
        assert made.pauses(row=100) == 0.0
        assert made.vain.died("bronze", made.job(row)) is (row == FEW - 1)
    assert made.pauses(row=100) == pytest.approx(FIRST_S) and made.pauses("gold", 100) == 0.0
    made.vain.answered("bronze", made.job(0))
    assert made.pauses(row=0) == pytest.approx(FIRST_S), "time alone ends it"
    made.clock.time_s += FIRST_S
    assert made.pauses(row=7) == made.pauses(row=8) == 0.0
    assert made.vain.died("bronze", made.job(7)) and made.pauses(row=8) == pytest.approx(2 * FIRST_S)
    made.clock.time_s += LONGEST_S
    assert not made.vain.died("bronze", made.job(8)), "long ago"


def test_only_what_was_long_and_in_vain_pauses() -> None:
    desk = Desk(GOLD, BRONZE, OTHER)
    job = Job(desk.pairs["bronze"], desk.network, 0.0, sizes=(1,))
    job.attained_s = 0.02
    assert not desk.holding.in_vain("bronze", job), "within what it may hold a device"
    job.attained_s = 0.03
    assert not desk.holding.in_vain("bronze", job), "once, and little beyond it"
    job.attained_s = 0.625
    assert desk.holding.in_vain("bronze", job)
    with pytest.raises(
        Refused,
        match=r"held a device for 625 ms and got no answer; tenant 'bronze' may send such inputs again in 13 s",
    ):
        desk.ask(BRONZE, 1)
    assert desk.ask(OTHER, 1) and desk.ask(BRONZE, 50), "others, and other sizes"
    alone = Desk(BRONZE)
    assert not alone.holding.in_vain("bronze", job), "nobody else was promised anything"


def test_what_took_its_device_down_pauses_and_is_paid_for() -> None:
    """An endless loop killed a device again and again, and nobody else was served: its time was not in its account."""
    desk = Desk(GOLD, BRONZE, OTHER)
    job = Job(desk.pairs["bronze"], desk.network, 0.0, sizes=(1,))
    desk.dispatcher.arrive(job)
    desk.clock.time_s += 2.5
    assert desk.dispatcher.lost(0) is job and job.attained_s == pytest.approx(2.5)
    assert desk.holding.in_vain("bronze", job)
    with pytest.raises(Refused, match="held a device for 2500 ms and got no answer"):
        desk.ask(BRONZE, 1)
    crashed = Job(desk.pairs["silver"], desk.network, 0.0, sizes=(7,))
    crashed.attained_s = 0.001
    assert not desk.holding.in_vain("silver", crashed)
    crashed.retries = 1
    assert not desk.holding.in_vain("silver", crashed), "its tensors were lost with a device that ran another"
    crashed.felled = crashed.crashed = True
    assert desk.holding.in_vain("silver", crashed), "short, but the device had to start anew"
    with pytest.raises(
        Refused, match=r"took its device down; tenant 'silver' may send such inputs again in 10 s$"
    ) as refused:
        desk.holding.check(OTHER, Job(desk.pairs["silver"], desk.network, 0.0))
    assert refused.value.retry_after_s == FIRST_S
    assert not Desk(BRONZE).holding.in_vain("bronze", crashed), "nobody else was promised anything"


def test_those_like_it_are_given_up_a_few_in_a_turn() -> None:
    """Each has one answer, none gets a device meanwhile, and what the last one's end gives up is nobody twice."""
    desk, turns, ended = Desk(BRONZE, OTHER), deque[Callable[[], None]](), list[int]()
    answers = Answers(Arena.create(MIB), desk.dispatcher)
    answers.in_turn = lambda who, work: turns.append(work)
    pool: Any = SimpleNamespace(dispatcher=desk.dispatcher, answers=answers, execution=Mock())
    jobs = [Job(desk.pairs[who], desk.network, 0.0, sizes=(1,)) for who in ["bronze"] * 9 + ["silver"]]

    def retired(job: Job, outcome: str) -> None:
        ended.append(job.number)
        DevicePool.give_up(pool, job, Refused("again"))

    answers.on_retired = retired
    for job in jobs:
        job.payload = Payload([], Slot(0, 0), Mock())
        desk.dispatcher.wait(job)
    DevicePool.give_up(pool, jobs[0], Refused("no room"))
    assert not ended and desk.dispatcher.waiting.jobs() == jobs[9:]
    while turns:
        turns.popleft()()
    assert ended == [job.number for job in jobs[:9]]
    assert all(job.payload.answer.set_exception.call_count <= 1 for job in jobs)


def test_large_outputs_leave_room_for_others() -> None:
    """16 MiB: 15 of them may be large, and no tenant's second answer takes more than what is left then."""
    arena = Arena.create(16 * MIB)
    dispatcher = SimpleNamespace(agreements=[SimpleNamespace(tenant=name) for name in "abc"])
    answers = Answers(arena, dispatcher)  # type: ignore[arg-type]
    network = CostBook(1).add("n", 1)
    a, b, c = (Job(pair, network, 0.0) for pair in range(3))
    with pytest.raises(
        NoRoom, match="the answer holds 16777216 bytes of tensors; the server has room for 15728640"
    ):
        answers.room_for(a, 16 * MIB)
    first = answers.room_for(a, 7 * MIB)
    with pytest.raises(
        Crowded, match=r"tenant 'a' has 7340032 bytes of answers .* holds 3145728 more: none may hold"
    ):
        answers.room_for(a, 3 * MIB)
    second = answers.room_for(b, 7 * MIB)
    with pytest.raises(Refused, match="memory for tensors is full"):
        answers.room_for(c, 2 * MIB)
    with pytest.raises(ArenaFull, match="some room is for small tensors"):
        arena.allocate(2 * MIB)
    small = [arena.allocate(MIB // 2) for _ in range(4)]
    for slot in [first, second, *small]:
        answers.release(slot)
    assert arena.free_bytes == 16 * MIB
    answers.release(answers.room_for(a, 15 * MIB))
    arena.close()


def sized(server: Server, count: int, network: str = "size") -> tuple[int, dict[str, Any], float]:
    """Status, content and seconds until one may ask again."""
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [count]}
    body = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    line.request("POST", f"/v2/models/{network}/infer", body, {"Authorization": f"Bearer {SILVER}"})
    answer = line.getresponse()
    content = answer.read()
    line.close()
    said = {} if answer.status == 200 else json.loads(content)
    return answer.status, said, float(answer.headers.get("Retry-After", 0.0))


def test_an_answer_without_room_is_paid_for_and_the_next_must_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunomia.serving.tenants.holding.LEAST_S", 1e-3)
    monkeypatch.setattr("eunomia.serving.tenants.vain.FREE_S", 0.0)
    monkeypatch.setattr("eunomia.serving.tenants.vain.PER", 1e3)
    monkeypatch.setattr("eunomia.serving.tenants.vain.FIRST_S", LONGEST_S)  # no machine is as slow
    # A cut would have the next wait for its end, however long that takes.
    monkeypatch.setattr(ByRequest, "_offered_of_tried", lambda *_: None)
    with running(tmp_path, max_block_s=1e-3) as server:
        write_networks(tmp_path)
        assert ask(server, "POST", "/v2/repository/models/size/load", ADMIN)[0] == 200
        until(lambda: sized(server, 10)[0] == 200)
        free = server.pool.arena.free_bytes

        def told() -> str:  # as too large, where another program held up the last run
            sized(server, 10)
            status, said, _ = sized(server, 8 * MIB)  # numbers; the arena has 16 MiB
            return said["error"] if (status, said["reason"]) == (413, "no_room") else ""

        assert "the server has room for" in until(told)
        assert server.service.limits.today.used_s["silver"] >= 1e-3
        status, said, again_s = sized(server, 10)
        assert status == 429 and "got no answer" in said["error"] and again_s >= 1.0
        assert server.pool.arena.free_bytes == free and not server.pool.busy
        an_endless_loop_costs_nobody_else_the_device(server)


def an_endless_loop_costs_nobody_else_the_device(server: Server) -> None:
    """It took the device away for 4 to 6 s, until its process had started anew."""
    assert ask(server, "POST", "/v2/repository/models/turns/load", ADMIN)[0] == 200
    assert sized(server, 5, "turns")[0] == 200
    pid = server.pool.devices[0].pid
    status, said, _ = sized(server, 10**15, "turns")
    assert (status, said["reason"]) == (413, "too_long") and "'turns' was ended after" in said["error"]
    assert (server.pool.deaths, server.pool.devices[0].pid) == (0, pid)
    assert server.service.limits.today.used_s["silver"] >= LEAST_S
    status, said, _ = sized(server, 5, "turns")
    assert status == 429 and "held a device for" in said["error"]


def test_a_size_of_which_a_run_was_ended_has_its_network_cut_after_the_pause() -> None:
    """It was foreseen as short: one after the other was let in and ended, and the server never tried another cut."""
    desk, explored = Desk(GOLD, BRONZE), list[Job]()

    def job() -> Job:
        return Job(desk.pairs["bronze"], desk.network, desk.clock.time_s, sizes=(1,))

    def explore(tenant: str, job: Job, bound_s: float) -> bool:
        explored.append(job)
        return True

    ended, desk.holding.explore = job(), explore
    assert desk.holding.check(BRONZE, ended) is None and not explored
    ended.attained_s, ended.felled = 0.12, True
    assert not desk.holding.in_vain("bronze", ended)
    assert desk.holding.check(BRONZE, job()) is None and not explored, "its values may have been at fault"
    assert desk.holding.in_vain("bronze", ended)
    with pytest.raises(Refused, match="for 120 ms and got no answer; tenant 'bronze' may send .* in 4 s"):
        desk.holding.check(BRONZE, job())
    desk.clock.time_s += FIRST_S
    again = job()
    assert desk.holding.check(BRONZE, again) is None and explored == [again], "it runs where no cut helps"
    assert desk.holding.check(GOLD, job()) is None and len(explored) == 1


def test_a_size_that_is_cut_by_a_requests_input_waits_for_that_in_place_of_its_pause() -> None:
    desk = Desk(GOLD, BRONZE)
    ended = Job(desk.pairs["bronze"], desk.network, 0.0, sizes=(1,), felled=True, attained_s=1.0)
    assert desk.holding.in_vain("bronze", ended)
    known: Any = Mock()
    desk.holding.being_cut = lambda job: known
    like = Job(desk.pairs["bronze"], desk.network, 0.0, sizes=(1,))
    desk.holding.foresee(BRONZE, like)
    assert desk.holding.check(BRONZE, like) is known
    desk.holding.being_cut = lambda job: None
    with pytest.raises(Refused, match="got no answer"):
        desk.holding.check(BRONZE, like)
