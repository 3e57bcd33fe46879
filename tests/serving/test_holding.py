"""A tenant's inputs cannot hold a device beyond what others were promised: sizes, values, and what heals."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from eunomia.serving.dispatch.admission import Admission
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.less import ended
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.protocol.errors import TooLarge, Untried
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory
from eunomia.serving.tenants.holding import AGAIN_S, SEEN_S, Holding, in_ms
from eunomia.workload.tenant import Agreement

GOLD = Grant("gold", promises={"*": Promise(0.05)})
BRONZE, SILVER = Grant("bronze", promises={"*": Promise(1.0)}), Grant("silver")
TRIAL_S = 20e-6  # one token


class Desk:
    """A network of one block whose time is ``seconds(tokens)``, before a device that is a note."""

    def __init__(self, *grants: Grant, most_s: float | None = None, quadratic: bool = True) -> None:
        self.clock, self.costs, self.quadratic = ManualClock(), CostBook(1), quadratic
        self.dispatcher = Dispatcher(
            self.clock, self, self.costs, 1, lambda view: [view.assign(0, 0)], DispatchOptions()  # type: ignore[arg-type]
        )  # fmt: skip
        self.network = self.costs.add("net", 1, sizes=[1])
        self.costs.measured(self.network, 0, [TRIAL_S])
        self.admission = Admission(self.dispatcher)
        self.holding = Holding(self.dispatcher, StaticDirectory(list(grants)), most_s)
        self.pairs = {g.name: self.dispatcher.add_pair(Agreement(g.name, "net")) for g in grants}

    def run(self, *order: Any) -> None:
        """The device begins."""

    def seconds(self, tokens: int) -> float:
        """With inputs of that size."""
        return TRIAL_S * (1.0 + (tokens**2 if self.quadratic else tokens) / 3000.0)

    def ask(self, grant: Grant, tokens: int, took_s: float = 0.0) -> bool:
        """One request to its end; False if it was refused."""
        now_s = self.clock.now_s()
        job = Job(self.pairs[grant.name], self.network, now_s, sizes=(tokens,))
        assert not self.admission.refuses(job)
        try:
            self.holding.check(grant, job)
        except (TooLarge, Untried):
            return False
        self.dispatcher.arrive(job)
        took_s = took_s or self.seconds(tokens)
        self.clock.time_s += took_s
        self.dispatcher.done(0, 1)
        self.holding.ran(grant.name, job, took_s)
        self.costs.learn(self.network, 0, 0, [took_s], 1, job.cost_row)
        return True


def test_growing_inputs_hold_a_device_for_too_long_once() -> None:
    desk = Desk(GOLD, BRONZE)
    taken = [desk.seconds(tokens) for tokens in range(1, 20_000, 97) if desk.ask(BRONZE, tokens)]
    over = [
        seconds for seconds in taken if seconds > 0.5 * 0.05 * 1.1
    ]  # within a class, sizes differ by a fifth
    assert len(over) <= 1 and max(taken) < 0.1 and len(taken) > 10


def test_a_large_input_runs_once_and_is_then_refused_in_one_sentence() -> None:
    desk = Desk(GOLD, BRONZE)
    assert desk.ask(BRONZE, 3000)
    assert not any(desk.ask(BRONZE, tokens) for tokens in range(3000, 30_000, 100))
    job = Job(desk.pairs["bronze"], desk.network, desk.clock.now_s(), sizes=(3000,))
    desk.admission.refuses(job)
    with pytest.raises(
        TooLarge, match=r"for 60 ms without a pause; tenant 'bronze' may 25 ms, for the deadlines of others"
    ):
        desk.holding.check(BRONZE, job)
    tried = 0
    for _ in range(3000):
        desk.clock.time_s += 1.0
        tried += desk.ask(BRONZE, 3000)
    assert 4 <= tried <= 8, "ever more seldom"


def test_a_trial_of_eight_rows_is_a_usual_size_with_all_its_rows() -> None:
    desk = Desk(GOLD, BRONZE)
    network = desk.costs.add("pictures", 1, rows=8, sizes=[1])
    desk.costs.measured(network, 0, [0.04])
    for rows, bears in ((8, True), (64, False)):
        job = Job(desk.pairs["bronze"], network, desk.clock.now_s(), batch=rows, sizes=(1,))
        desk.dispatcher.classify(job)
        desk.holding.explore = lambda tenant, job, bound_s: True
        if bears:
            assert desk.holding.check(BRONZE, job) is None
        else:
            with pytest.raises(TooLarge):
                desk.holding.check(BRONZE, job)


def test_a_size_that_never_ran_has_no_figure_in_its_refusal() -> None:
    """Ten minutes were said of a picture of 0.1 s: grown with the square from a trial of one element."""
    desk = Desk(GOLD, BRONZE)
    desk.holding.explore = lambda tenant, job, bound_s: True  # a step to it would be too long
    job = Job(desk.pairs["bronze"], desk.network, desk.clock.now_s(), sizes=(30_000,))
    desk.admission.refuses(job)
    with pytest.raises(
        TooLarge, match="may hold a device for too long without a pause; tenant 'bronze' may 25 ms"
    ):
        desk.holding.check(BRONZE, job)


def test_who_sent_one_row_hears_which_input_to_shorten_and_to_what() -> None:
    """It was told to send fewer rows, of one."""
    desk = Desk(GOLD, BRONZE)
    assert desk.ask(BRONZE, 40) and desk.ask(BRONZE, 3000)
    job = Job(
        desk.pairs["bronze"], desk.network, desk.clock.now_s(), sizes=(3000,), shapes=(("x", (1, 3000)),)
    )
    desk.dispatcher.classify(job)
    with pytest.raises(TooLarge, match=r"others: send a shorter 'x' \(35 elements pass, this has 3000\)$"):
        desk.holding.check(BRONZE, job)
    desk.dispatcher.patience_s = desk.holding.patience_s
    said = str(ended(desk.dispatcher, job, 0.129))
    assert said.startswith("network 'net' was ended after 129 ms: this input may hold its device for 25 ms")
    assert said.endswith("send a shorter 'x' (35 elements pass, this has 3000)")
    desk.holding.explore = lambda tenant, job, bound_s: True
    several = Job(desk.pairs["bronze"], desk.network, desk.clock.now_s(), batch=2, sizes=(3000,))
    desk.dispatcher.classify(several)
    with pytest.raises(TooLarge, match="for the deadlines of others: send fewer rows$"):
        desk.holding.check(BRONZE, several)


def test_two_times_that_differ_are_not_said_to_be_the_same() -> None:
    """They hold a device for 25 ms, and others can wait for 25 ms."""
    assert in_ms(0.0254, 0.025) == ("25.4 ms", "25.0 ms") and in_ms(1.0, 0.025) == ("1000 ms", "25 ms")
    assert in_ms(0.025, 0.025) == ("25.000 ms", "25.000 ms")


def test_before_its_tensors_are_here_a_size_is_refused_only_where_nothing_helps() -> None:
    """Of large bodies, sizes that were known as too long were refused where small ones waited for another cut."""
    desk = Desk(GOLD, BRONZE)
    assert desk.ask(BRONZE, 3000) and not desk.ask(BRONZE, 3000)
    job = Job(desk.pairs["bronze"], desk.network, desk.clock.now_s(), sizes=(3000,))
    desk.dispatcher.classify(job)
    with pytest.raises(TooLarge):
        desk.holding.foresee(BRONZE, job)
    desk.holding.helped = lambda tenant, job: True
    desk.holding.foresee(BRONZE, job)


def test_the_log_says_once_of_a_network_that_usual_sizes_may_be_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its tenant may send less, and only an operator can have it cut for more; nothing said so to anybody."""
    desk = Desk(GOLD, BRONZE)
    assert desk.ask(BRONZE, 3000) and not caplog.messages
    assert not any(desk.ask(BRONZE, tokens) for tokens in range(3000, 4000, 100))
    (said,) = caplog.messages
    assert "some inputs of 'net' are refused" in said and "shapes in its [[network]]" in said


def test_the_log_says_once_that_others_wait_for_a_network_that_cannot_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Features of sound that take 90 ms in one node: another tenant missed its 50 ms, and nothing said why."""
    desk = Desk(GOLD, BRONZE)
    desk.costs.measured(desk.network, 0, [0.09])
    assert desk.ask(BRONZE, 1, 0.09) and desk.ask(BRONZE, 1, 0.09)
    (said,) = caplog.messages
    assert said.startswith("'net' holds a device for 90 ms without a pause") and "wait for 25 ms" in said


def test_what_clients_choose_moves_no_bound() -> None:
    """One input of another tenant had it cut anew; then inputs of the trial's own size were refused for good."""
    desk = Desk(GOLD, BRONZE)
    desk.costs.measured(desk.network, 0, [0.09])
    assert desk.ask(BRONZE, 1, 0.09)
    first = desk.network.index
    desk.network = desk.costs.add("net", 1, sizes=[16])
    desk.costs.usual[desk.network.index] = first
    desk.costs.measured(desk.network, 0, [0.1])
    assert desk.ask(BRONZE, 16, 0.1) and desk.ask(BRONZE, 1, 0.09)
    desk.costs.measured(desk.network, 0, [0.4])
    assert desk.ask(BRONZE, 16, 0.4), "once, to see"
    assert not desk.ask(BRONZE, 16, 0.4)


def test_what_has_just_run_counts_before_it_is_written_up() -> None:
    """Who sent another one at once was let in, and its run ended: 413, and 429 for ten seconds."""

    async def main() -> None:
        desk, tokens = Desk(GOLD, BRONZE), 3000
        job = Job(desk.pairs["bronze"], desk.network, 0.0, sizes=(tokens,))
        desk.dispatcher.classify(job)
        learn = partial(desk.costs.learn, desk.network, 0, 0, [desk.seconds(tokens)], 1, job.cost_row)
        assert desk.holding.check(BRONZE, job) is None
        desk.dispatcher.later.add(learn)
        with pytest.raises(TooLarge):
            desk.holding.check(BRONZE, job)

    asyncio.run(main())


def test_what_nobody_could_try_is_refused_for_a_while_and_not_for_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As it was, 413 said of sizes that never ran that they are too large; 30 s later they were served."""
    desk = Desk(GOLD, BRONZE, quadratic=False)
    jobs = [Job(desk.pairs["bronze"], desk.network, 0.0, sizes=(n,)) for n in (3000, 9000)]
    for job in jobs:
        desk.admission.refuses(job)
    assert desk.holding.check(BRONZE, jobs[0]) is None, "the first one runs"
    with pytest.raises(
        Untried, match="could not try one on 'net', .* tenant 'bronze' may try one such"
    ) as told:
        desk.holding.check(BRONZE, jobs[1])
    assert (told.value.http, told.value.retry_after_s) == (429, AGAIN_S)
    assert str(told.value).endswith(
        f"again in {AGAIN_S:.0f} s, or have its operator give usual sizes (shapes)"
    )
    (said,) = caplog.messages  # 59 of 60 pictures were refused, and the log was empty
    assert "some inputs of 'net' are refused" in said and "shapes in its [[network]]" in said
    desk.clock.time_s += AGAIN_S
    assert desk.ask(BRONZE, 9000)


@pytest.mark.parametrize(
    "grants, most_s", [((BRONZE,), None), ((BRONZE, SILVER), None), ((GOLD, BRONZE), float("inf"))]
)
def test_where_nobody_else_was_promised_anything_all_sizes_run(grants: Any, most_s: float | None) -> None:
    assert Desk(*grants, most_s=most_s).ask(BRONZE, 3000)


def test_a_tenant_is_not_bound_by_its_own_deadline() -> None:
    assert Desk(GOLD, SILVER).ask(GOLD, 3000)


@pytest.mark.parametrize("most_s", [None, 1e-6, float("inf")])
def test_a_tenant_may_have_a_bound_of_its_own(most_s: float | None) -> None:
    """It counts in place of the server's, in either direction; 0 is none at all."""
    free, tight = replace(BRONZE, max_block_s=0.0), replace(SILVER, max_block_s=0.012)
    desk = Desk(GOLD, free, tight, most_s=most_s)
    assert all(desk.ask(free, 3000) for _ in range(3))
    assert desk.holding.bound_s("bronze") == float("inf") and desk.holding.bound_s("silver") == 0.012
    assert [desk.ask(tight, 3000) for _ in range(3)] == [True, False, False]


def test_what_proves_cheap_is_learned_and_served() -> None:
    desk = Desk(GOLD, BRONZE, quadratic=False)
    assert all(desk.ask(BRONZE, 20_000) for _ in range(10)), "the first is a probe"
    assert desk.ask(BRONZE, 1) and desk.ask(BRONZE, 10_000)


def test_a_value_that_makes_a_run_long_closes_its_class_for_a_while() -> None:
    desk = Desk(GOLD, BRONZE, SILVER)
    assert desk.ask(BRONZE, 1, took_s=0.4)
    assert [desk.ask(BRONZE, 1) for _ in range(5)] == [False] * 5
    assert desk.ask(SILVER, 1), "others may go on"
    desk.clock.time_s += SEEN_S
    assert desk.ask(BRONZE, 1, took_s=0.4) and not desk.ask(BRONZE, 1), (
        "it was no accident: longer than before"
    )
    desk.clock.time_s += SEEN_S
    assert not desk.ask(BRONZE, 1)
    desk.clock.time_s += SEEN_S
    assert all(desk.ask(BRONZE, 1) for _ in range(50)), "one that is short opens it"


def test_an_operator_whose_shapes_are_right_is_not_asked_for_shapes(caplog: pytest.LogCaptureFixture) -> None:
    """Inputs of the trial's own size were refused, as the machine was busy, with the advice to give usual shapes."""
    desk = Desk(GOLD, BRONZE)
    assert desk.ask(BRONZE, 1, took_s=1.0) and not desk.ask(BRONZE, 1)
    (said,) = [record.getMessage() for record in caplog.records if "are refused" in record.getMessage()]
    assert said.startswith(
        "inputs of 'net' are refused, though they have its trial's sizes: they hold a device for 1000 ms"
    )
    assert "others can wait for 25 ms" in said and "max_block_ms" in said and "shapes" not in said
