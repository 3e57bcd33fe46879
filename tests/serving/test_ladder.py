"""Sizes that never ran are found out in steps that hold no device for too long, before anybody's request may run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.climbs import AGAIN_S, AT_ONCE, MOST
from eunomia.serving.devices.ladder import (
    ANSWER_S,
    BEHIND,
    PAUSE_S,
    SHARE,
    Ladder,
    between,
    first_axes,
    furthest,
    liked,
    with_rows_of,
)
from eunomia.serving.devices.loading import LoadedModel, trial_shape
from eunomia.serving.devices.messages import pair, receive
from eunomia.serving.devices.network import LoadedNetwork
from eunomia.serving.devices.piece import Live, live_of
from eunomia.serving.devices.step import Step
from eunomia.serving.devices.worker import Worker
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.entry import Entry
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory, hash_key
from tests.hostile.networks import WIDTH, write_all
from tests.serving.live import GOLD, SILVER, ask, options, running

BOUND_S, TOKEN_S = 0.025, 20e-6
PORTS: Any = [{"name": "x", "datatype": "FP32", "shape": [-1, -1, 4]}]


def elements(shapes: Shapes) -> int:
    """In all inputs together."""
    return sum(math.prod(sizes) for sizes in shapes.values())


class Fake:
    """A device that takes ``seconds(rows, tokens)`` for one block."""

    alive: ClassVar[bool] = True
    index: ClassVar[int] = 0

    def __init__(self, seconds: Callable[[int, int], float], *, busy: int = 0, why: str = "") -> None:
        self.seconds, self.busy, self.why = seconds, busy, why
        self.held: list[float] = []
        self.told, self.telling, self.warm = list[int](), 0, False  # at which message each block ran
        self.ladder: Ladder

    def tell(self, message: dict[str, Any]) -> None:
        rows, tokens, _ = message["shapes"]["x"]
        answer = {"number": message["number"], "why": self.why, "seconds": [], "spent": 0.0}
        if self.busy and not message["one"]:
            self.busy -= 1
        elif not self.why:
            answer["spent"] = self.seconds(rows, tokens)
            self.held.append(answer["spent"])
            self.told.append(self.telling)
            self.warm = not self.warm
            answer["seconds"] = [] if self.warm and self.busy else [self.held[-1]]
        self.telling += 1
        loop = asyncio.get_running_loop()
        loop.call_soon(self.ladder.answered, self.index, {**answer, "number": -1, "why": "of an older step"})
        loop.call_soon(self.ladder.answered, self.index, answer)


def ladder_on(fake: Fake, clock: ManualClock, devices: int = 1) -> tuple[Ladder, CostBook, Network]:
    """For one network on this device, the first of so many."""
    costs = CostBook(devices)
    network = costs.add("net", 1, sizes=[4])
    costs.measured(network, 0, [fake.seconds(1, 1)])
    loading: Any = type("Loading", (), {})()
    loading.models = {"net": LoadedModel(network, "net#1", "", {}, {"inputs": PORTS, "outputs": []})}
    fake.ladder = Ladder([fake], loading, costs, clock)  # type: ignore[list-item]
    return fake.ladder, costs, network


def asking(costs: CostBook, network: Network, rows: int, tokens: int, pair: int = 0) -> Job:
    """A request of this size."""
    job = Job(pair, network, 0.0, batch=rows, sizes=(tokens * 4,), shapes=(("x", (rows, tokens, 4)),))
    job.cost_row = costs.row_of(network, rows, job.sizes, pair)
    return job


async def tried(ladder: Ladder, job: Job, tenant: str = "gold", bound_s: float = BOUND_S) -> bool:
    """Whether the climb to its size came to an end."""
    found = ladder.towards(tenant, job, bound_s)
    if isinstance(found, bool):
        return found
    assert ladder.towards(tenant, job, bound_s) is found, "one climb for all that wait"
    await found
    again = ladder.towards(tenant, job, bound_s)
    assert isinstance(again, bool)
    return again


def climb(fake: Fake, rows: int, tokens: int) -> tuple[bool, CostBook, Job]:
    """To one size, until it is known or in vain."""
    ladder, costs, network = ladder_on(fake, ManualClock())

    async def main() -> bool:
        return await tried(ladder, asking(costs, network, rows, tokens))

    found = asyncio.run(main())
    return found, costs, asking(costs, network, rows, tokens)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 500), tokens=st.integers(1, 20_000),
    power=st.sampled_from([0.0, 1.0, 1.7, 2.0]), flat=st.floats(1e-6, 5e-3),
)  # fmt: skip
def test_no_step_holds_the_device_beyond_the_bound(rows: int, tokens: int, power: float, flat: float) -> None:
    """Whatever the time grows with, up to the square; and what stays inside the bound is reached, or nearly so."""

    def seconds(r: int, n: int) -> float:
        return flat + TOKEN_S * r * (n / 50.0) ** power

    fake = Fake(seconds)
    found, costs, job = climb(fake, rows, tokens)
    assert found is True and len(fake.held) < 60
    assert max(fake.held, default=0.0) <= BOUND_S * 1.01
    true_s = seconds(rows, tokens)
    judged_s = costs.longest_s(job.network, job.cost_row) * job.rows
    if true_s < BOUND_S / 4.0:
        assert judged_s <= BOUND_S, "what is short is let in"
    if true_s > BOUND_S * 4.0 and power >= 1.0:
        assert judged_s > BOUND_S, "what is long is not"


def test_orders_come_first_and_a_device_that_is_never_idle_gives_a_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it was, no size was found out on such a device: the first ran unseen, and the others got 413 for a while."""
    pauses = list[float]()

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr("eunomia.serving.devices.ladder.asyncio.sleep", sleep)
    seldom = Fake(lambda r, n: TOKEN_S * r * n, busy=BEHIND - 1)
    assert climb(seldom, 1, 900)[0] is True and seldom.busy == 0
    pauses.clear()
    never = Fake(lambda r, n: TOKEN_S * r * n, busy=10**6)
    found, costs, job = climb(never, 1, 900)
    assert found is True and costs.evident(job.cost_row)
    assert never.told[0] == BEHIND, "orders come first for a while"
    waits = [b - a for a, b in pairwise(never.told)]
    for held_s, wait in zip(never.held, waits, strict=False):
        assert held_s <= SHARE * (wait - 1) * PAUSE_S * 1.0001 < held_s + SHARE * PAUSE_S * 1.01
    most_s = BEHIND * PAUSE_S + sum(never.held) / SHARE + 2.0 * PAUSE_S * len(never.held)
    assert set(pauses) == {PAUSE_S} and len(pauses) * PAUSE_S <= most_s
    assert climb(Fake(lambda r, n: TOKEN_S * r * n, why="this size does not fit"), 1, 900)[0] is False


def test_what_others_take_of_the_core_is_no_time_of_a_step() -> None:
    """Beside a busy program, sizes counted as three times as long as they are, and were refused for good."""
    spent_s = iter(range(100))
    network: Any = SimpleNamespace(
        blocks=2,
        ones=False,
        ports={"inputs": []},
        run_block=lambda n, live: live,
        clock=lambda: next(spent_s),
    )
    step = Step(network, {})
    while not step.over:
        step.next()
    assert step.seconds == [1, 1] and LoadedNetwork.clock.__name__ == "thread_time"


class Blocks:
    """A network of three blocks."""

    blocks, ones, ports, clock = 3, False, {"inputs": PORTS}, staticmethod(LoadedNetwork.clock)

    def run_block(self, n: int, live: Live) -> Live:
        """Each adds its number."""
        return live_of({"x": live["x"].numpy() + float(n)})


def test_an_interrupted_step_goes_on_where_it_was() -> None:
    """As it was, it began anew each time; where the device was never idle for all of it, it never came to an end."""
    line, theirs = pair()
    arena = Arena.create(2**20)
    worker = Worker(theirs, arena, 0, "")
    worker._networks["net"] = Blocks()  # type: ignore[assignment]
    worker._ordered = lambda: True  # type: ignore[method-assign]
    told = list[Any]()

    def tried(tokens: int, *, one: bool) -> Any:
        worker._try({"number": 1, "model": "net", "shapes": {"x": [1, tokens, 4]}, "one": one})
        told.append(receive(line))
        return told[-1]

    assert tried(7, one=False)["spent"] == 0.0, "others go first"
    for _ in range(5):
        assert tried(7, one=True)["spent"] > 0.0 and told[-1]["seconds"] == []
        assert tried(7, one=False)["spent"] == 0.0
    assert len(tried(7, one=True)["seconds"]) == 3 and worker._step is None
    assert tried(7, one=True)["seconds"] == [] and tried(9, one=True)["why"] == ""
    worker._ordered = lambda: False  # type: ignore[method-assign]
    assert len(tried(9, one=False)["seconds"]) == 3 and len(tried(7, one=False)["seconds"]) == 3
    worker._networks.clear()
    assert "not loaded" in tried(7, one=True)["why"]
    worker._memory.release()
    for end in (line, theirs, arena):
        end.close()


def test_a_tenants_failing_inputs_close_no_size_for_another_and_heal() -> None:
    """As it was, one climb in vain was everybody's, for ever."""
    clock, fake = ManualClock(), Fake(lambda r, n: TOKEN_S * r * n, why="this size does not fit")
    ladder, costs, network = ladder_on(fake, clock)

    async def main() -> None:
        job = asking(costs, network, 1, 900)
        assert not await tried(ladder, job, "bronze")
        for pause_s in (AGAIN_S, 2.0 * AGAIN_S, 4.0 * AGAIN_S):
            clock.time_s += pause_s - 1.0
            assert ladder.towards("bronze", job, BOUND_S) is False, "what failed is not tried again at once"
            clock.time_s += 1.0
            assert not await tried(ladder, job, "bronze"), "but later and later"
        fake.why = ""
        assert await tried(ladder, job, "gold")
        assert costs.evident(job.cost_row)
        assert ladder.towards("bronze", job, BOUND_S) is True, "what was measured is everybody's"

    asyncio.run(main())


def test_what_a_tenants_own_bound_ended_is_tried_for_those_who_may_more() -> None:
    ladder, costs, network = ladder_on(Fake(lambda r, n: TOKEN_S * r * n**1.5), ManualClock())

    async def main() -> None:
        job = asking(costs, network, 1, 100)  # 20 ms
        assert await tried(ladder, job, "bronze", 1e-3) and not costs.evident(job.cost_row)
        assert await tried(ladder, job, "silver", 1e-3) and not costs.evident(job.cost_row)
        assert await tried(ladder, job, "bronze", 0.1) and costs.evident(job.cost_row)

    asyncio.run(main())


def test_sizes_of_which_the_time_is_known_are_not_tried_again() -> None:
    fake = Fake(lambda r, n: TOKEN_S * r * n)
    ladder, costs, network = ladder_on(fake, ManualClock())

    async def main() -> None:
        assert await tried(ladder, asking(costs, network, 1, 900))
        first = len(fake.held)
        assert await tried(ladder, asking(costs, network, 1, 1200, pair=1), "silver")
        assert first > 2 and len(fake.held) <= first + 1

    asyncio.run(main())


def test_what_is_remembered_and_under_way_is_bounded_and_tenants_take_turns() -> None:
    clock = ManualClock()
    ladder, costs, network = ladder_on(Fake(lambda r, n: TOKEN_S * r * n, why="no"), clock)

    async def main() -> None:
        ended: list[str] = []
        under_way = [
            ladder.towards("bronze", asking(costs, network, 1, 300 * 2**n), BOUND_S) for n in range(AT_ONCE)
        ]
        ninth = ladder.towards("bronze", asking(costs, network, 1, 10**6), BOUND_S)
        assert ninth is under_way[0], "it waits for its turn; it was refused"
        under_way.append(ladder.towards("gold", asking(costs, network, 1, 500, pair=1), BOUND_S))
        for n, one in enumerate(under_way):
            assert not isinstance(one, bool)
            one.add_done_callback(lambda _, n=n: ended.append("gold" if n == AT_ONCE else "bronze"))
        await asyncio.wait([one for one in under_way if not isinstance(one, bool)])
        assert ended.index("gold") <= 2 and len(ended) == AT_ONCE + 1
        for n in range(3 * MOST):
            assert not await tried(ladder, asking(costs, network, 1, 300 + 100 * n), "silver")
        assert len(ladder._climbs._of["silver"]) <= MOST
        ladder.forget(network)
        assert not ladder._climbs._of

    asyncio.run(main())


def test_a_step_is_made_where_there_is_the_least_to_do() -> None:
    fake, other = Fake(lambda rows, tokens: 1e-3), Fake(lambda rows, tokens: 1e-3)
    ladder, costs, network = ladder_on(fake, ManualClock(), 2)
    costs.measured(network, 1, [1e-3])
    other.index, other.ladder = 1, ladder  # type: ignore[misc]
    ladder._devices = [fake, other]  # type: ignore[list-item]
    ladder.queued = lambda device: 2 - device
    job = asking(costs, network, 1, 5)
    assert asyncio.run(tried(ladder, job)) is True and other.held and not fake.held
    assert costs.latency_s[job.cost_row, 1] == 1e-3


def test_a_device_that_dies_ends_its_step_at_once() -> None:
    fake = Fake(lambda r, n: TOKEN_S * r * n)
    ladder, costs, network = ladder_on(fake, ManualClock())
    fake.tell = lambda message: asyncio.get_running_loop().call_soon(ladder.died, 0)  # type: ignore[method-assign, assignment, return-value]

    async def main() -> None:
        assert not await asyncio.wait_for(tried(ladder, asking(costs, network, 1, 900)), ANSWER_S / 2.0)

    asyncio.run(main())


class Strict(Fake):
    """It takes inputs that fit together, and nothing else; ``flat_s``: for whatever it is."""

    def __init__(self, fits: Callable[[Shapes], bool], flat_s: float = 0.0) -> None:
        super().__init__(lambda rows, tokens: 0.0)
        self.fits, self.flat_s, self.seen = fits, flat_s, list[Shapes]()

    def tell(self, message: dict[str, Any]) -> None:
        shapes = message["shapes"]
        self.seen.append(shapes)
        self.held.append(self.flat_s or TOKEN_S * elements(shapes))
        why = "" if self.fits(shapes) else "nodes do not fit together"
        answer = {"number": message["number"], "why": why, "seconds": [self.held[-1]], "spent": self.held[-1]}
        asyncio.get_running_loop().call_soon(self.ladder.answered, self.index, answer)


def same(*places: tuple[str, int]) -> Callable[[Shapes], bool]:
    """Whether these axes have one size."""
    return lambda shapes: len({shapes[name][n] for name, n in places}) == 1


SILERO = {"x": ["batch", "sequence"], "state": ["", "batch", ""]}
DECODER = {"x": ["batch", "words"], "past": ["batch", "past"], "mask": ["batch", "past + words"]}
LINKED: dict[str, tuple[dict[str, list[str]], Shapes, Callable[[Shapes], bool]]] = {
    "rows that stand elsewhere": (
        SILERO,
        {"x": [70, 90], "state": [2, 70, 4]},
        same(("x", 0), ("state", 1)),
    ),
    "first here and last there": (
        {"x": ["n", ""], "y": ["", "n"]},
        {"x": [900, 4], "y": [4, 900]},
        same(("x", 0), ("y", 1)),
    ),
    "a sum": (
        DECODER,
        {"x": [3, 37], "past": [3, 900], "mask": [3, 937]},
        lambda shapes: shapes["x"][1] + shapes["past"][1] == shapes["mask"][1],
    ),
    "nodes and edges of a graph": (
        {"node": ["nodes"], "edge": ["edges"], "ends": ["", "edges"]},
        {"node": [60], "edge": [900], "ends": [2, 900]},
        same(("edge", 0), ("ends", 1)),
    ),
    "names that are wrong": (
        {"x": ["", "n"], "y": ["", "n"]},
        {"x": [4, 1], "y": [4, 900]},
        lambda shapes: shapes["x"][1] == 1,
    ),
}


@pytest.mark.parametrize(("names", "wanted", "fits"), LINKED.values(), ids=[*LINKED])
def test_axes_that_belong_together_grow_together(
    names: dict[str, list[str]], wanted: Shapes, fits: Callable[[Shapes], bool]
) -> None:
    """Each grew by itself, first axes after all others: the steps failed, until a request had run."""
    free = {
        name: [-1 if axis else wanted[name][n] for n, axis in enumerate(axes)] for name, axes in names.items()
    }
    ports: Any = [{"name": name, "datatype": "FP32", "shape": shape} for name, shape in free.items()]
    trial = {name: [1 if d < 0 else d for d in shape] for name, shape in free.items()}
    if "mask" in trial:
        trial["mask"] = [1, 2]
    assert fits(trial)
    rows, sizes = trial_shape(ports, trial)
    fake, costs = Strict(fits), CostBook(1)
    network = costs.add("net", 1, rows=rows, sizes=sizes)
    costs.measured(network, 0, [TOKEN_S * elements(trial)])
    loading: Any = type("Loading", (), {})()
    model = LoadedModel(network, "net#1", "", trial, {"inputs": ports, "outputs": [], "axes": names})
    loading.models = {"net": model}
    ladder = fake.ladder = Ladder([fake], loading, costs, ManualClock())  # type: ignore[list-item]
    count, per_row = trial_shape(ports, wanted)
    shapes = tuple((name, tuple(sizes)) for name, sizes in wanted.items())
    job = Job(0, network, 0.0, batch=count, sizes=tuple(per_row), shapes=shapes)
    job.cost_row = costs.row_of(network, count, job.sizes)
    assert asyncio.run(tried(ladder, job)) is True, "no step failed"
    assert len(fake.seen) > 1 and max(fake.held) <= BOUND_S * 1.01
    assert wanted in fake.seen or elements(wanted) * TOKEN_S > BOUND_S / 2.0


@pytest.mark.parametrize(("flat_s", "found"), [(1e-4, True), (BOUND_S, False)])
def test_axes_that_hang_together_without_names_are_tried_in_one_step(flat_s: float, found: bool) -> None:
    """One shrinks while another grows: sizes between fit no network of this kind."""
    ports: Any = [{"name": name, "datatype": "FP32", "shape": [1, -1]} for name in DECODER]
    trial: Shapes = {"x": [1, 1], "past": [1, 512], "mask": [1, 513]}
    wanted: Shapes = {"x": [1, 2], "past": [1, 100], "mask": [1, 102]}
    fits = LINKED["a sum"][2]
    fake, costs = Strict(fits, flat_s), CostBook(1)
    rows, sizes = trial_shape(ports, trial)
    network = costs.add("net", 1, rows=rows, sizes=sizes)
    costs.measured(network, 0, [flat_s])
    loading: Any = type("Loading", (), {})()
    loading.models = {"net": LoadedModel(network, "net#1", "", trial, {"inputs": ports, "outputs": []})}
    fake.ladder = Ladder([fake], loading, costs, ManualClock())  # type: ignore[list-item]
    shapes = tuple((name, tuple(sizes)) for name, sizes in wanted.items())
    job = Job(0, network, 0.0, sizes=tuple(trial_shape(ports, wanted)[1]), shapes=shapes)
    job.cost_row = costs.row_of(network, 1, job.sizes)
    asyncio.run(tried(fake.ladder, job))
    assert (wanted in fake.seen) is found and costs.evident(job.cost_row) is found


CACHE: Any = [
    {"name": "ids", "datatype": "INT64", "shape": [1, -1]},
    {"name": "past", "datatype": "FP32", "shape": [1, 8, -1, 64]},
]


class Decoder(Strict):
    """What it takes is a matter of its tokens, of which each is as nothing beside the cache."""

    def __init__(self) -> None:
        super().__init__(lambda shapes: True)

    def tell(self, message: dict[str, Any]) -> None:
        self.flat_s = self.cost_s(message["shapes"])
        super().tell(message)

    def cost_s(self, shapes: Shapes) -> float:
        """Of one block."""
        tokens, past = shapes["ids"][1], shapes["past"][2]
        return 0.5e-3 + 0.5e-3 * tokens + 1e-6 * tokens * (tokens + past)

    def climb(self, trial: tuple[int, int], wanted: tuple[int, int]) -> bool:
        """From so many tokens behind so many to others; whether what these take is known then."""
        tried_s, asked = ({"ids": [1, n], "past": [1, 8, past, 64]} for n, past in (trial, wanted))
        costs = CostBook(1)
        rows, sizes = trial_shape(CACHE, tried_s)
        network = costs.add("net", 1, rows=rows, sizes=sizes)
        costs.measured(network, 0, [self.cost_s(tried_s)])
        loading: Any = type("Loading", (), {})()
        model = LoadedModel(network, "net#1", "", tried_s, {"inputs": CACHE, "outputs": []})
        loading.models = {"net": model}
        self.ladder = Ladder([self], loading, costs, ManualClock())  # type: ignore[list-item]
        rows, sizes = trial_shape(CACHE, asked)
        shapes = tuple((name, tuple(sizes)) for name, sizes in asked.items())
        job = Job(0, network, 0.0, sizes=tuple(sizes), shapes=shapes)
        job.cost_row = costs.row_of(network, 1, job.sizes)
        assert asyncio.run(tried(self.ladder, job)) is True
        return costs.evident(job.cost_row)


@pytest.mark.parametrize(
    ("trial", "wanted", "known"),
    [
        ((1, 1), (200, 0), False),  # the first prompt
        ((1, 1), (200, 1), False),
        ((1, 1), (12, 0), True),
        ((1, 1), (12, 12), True),  # both grow
        ((1, 0), (1, 900), True),  # from none
        ((200, 0), (1, 900), True),  # it was cut for a prompt, and goes on from there
        ((1, 900), (12, 0), True),
        ((1, 900), (200, 0), False),
    ],
)
def test_each_axis_that_grows_is_climbed_whatever_a_large_cache_does(
    trial: tuple[int, int], wanted: tuple[int, int], known: bool
) -> None:
    """A cache of one position has more elements than a prompt of 200 tokens: that was one step, and a device died."""
    decoder = Decoder()
    assert decoder.climb(trial, wanted) is known
    assert decoder.held and max(decoder.held) <= BOUND_S * 1.01


def test_one_long_row_is_tried_where_the_trial_had_several_short_ones() -> None:
    """It was tried with as many rows as the trial had, which took too long, and refused."""
    fake = Fake(lambda rows, tokens: TOKEN_S * rows * tokens)
    ladder, costs, network = ladder_on(fake, ManualClock())
    network = costs.add("net", 1, rows=8, sizes=[4 * 100])
    costs.measured(network, 0, [fake.seconds(1, 100)])
    ports: Any = {"inputs": PORTS, "outputs": []}
    ladder._loading.models["net"] = LoadedModel(network, "net#2", "", {"x": [8, 100, 4]}, ports)
    job = asking(costs, network, 1, 900)
    assert asyncio.run(tried(ladder, job)) is True and costs.evident(job.cost_row)
    assert fake.held and max(fake.held) <= BOUND_S


def test_a_network_that_takes_long_with_one_element_is_tried_with_more() -> None:
    """A recogniser of tables runs a loop of 7 ms whatever it sees: all pictures were refused, as 1 x 1 to 2 x 2 is far.

    Their time was foreseen as grown with the square of the elements, to ten minutes.
    """
    ports: Any = [{"name": "x", "datatype": "FP32", "shape": [1, 3, -1, -1]}]
    fake, costs = Strict(lambda shapes: True, flat_s=0.007), CostBook(1)
    network = costs.add("net", 1, sizes=[3])
    costs.measured(network, 0, [0.007])
    loading: Any = type("Loading", (), {})()
    loading.models = {"net": LoadedModel(network, "net#1", "", {}, {"inputs": ports, "outputs": []})}
    ladder = fake.ladder = Ladder([fake], loading, costs, ManualClock())  # type: ignore[list-item]
    job = Job(0, network, 0.0, sizes=(3 * 488 * 488,), shapes=(("x", (1, 3, 488, 488)),))
    job.cost_row = costs.row_of(network, 1, job.sizes)
    assert asyncio.run(tried(ladder, job)) is True and costs.evident(job.cost_row)


def test_from_one_element_a_recurrent_network_is_not_tried_beyond_the_bound() -> None:
    """Its time is in proportion from the first on: a device was held for 33 ms where 25 were allowed."""
    fake = Fake(lambda rows, tokens: 0.12e-3 * rows * tokens)
    costs = CostBook(1)
    network = costs.add("net", 1, sizes=[1])
    costs.measured(network, 0, [fake.seconds(1, 1)])
    ports: Any = [{"name": "x", "datatype": "INT64", "shape": [-1, -1, 1]}]
    loading: Any = type("Loading", (), {})()
    loading.models = {"net": LoadedModel(network, "net#1", "", {}, {"inputs": ports, "outputs": []})}
    ladder = fake.ladder = Ladder([fake], loading, costs, ManualClock())  # type: ignore[list-item]
    job = Job(0, network, 0.0, sizes=(2000,), shapes=(("x", (1, 2000, 1)),))
    job.cost_row = costs.row_of(network, 1, job.sizes)
    assert asyncio.run(tried(ladder, job)) is True
    assert fake.held and max(fake.held) <= BOUND_S


def test_sizes_between() -> None:
    tried, wanted = {"x": [1, 1, 4], "y": [1]}, {"x": [16, 100, 4], "y": [16]}
    assert between(tried, wanted, 0.0) == tried and between(tried, wanted, 1.0) == wanted
    assert between({"past": [0]}, {"past": [64]}, 0.5) == {"past": [8]}, "from none"
    past = between({"past": [1, 0], "x": [4, 3]}, {"past": [2, 0], "x": [9, 0]}, 0.5)
    assert past == {"past": [1, 0], "x": [6, 0]}
    assert furthest({"past": [1, 0]}, {"past": [2, 0]}, 0.0, 2.0) == 1.0
    assert between(tried, wanted, 0.5) == {"x": [4, 10, 4], "y": [4]}
    small, large = {"x": [3, 32, 64]}, {"x": [3, 640, 448]}
    on_grid = [between(small, large, part / 9.0, liked(small, large, dict))["x"] for part in range(10)]
    assert all(picture[0] == 3 for picture in on_grid), "what is the same in both stays"
    pictures = [picture[1:] for picture in on_grid]
    assert all(size % 32 == 0 for picture in pictures for size in picture), "a network that halves five times"
    assert pictures == sorted(pictures) and pictures[0] == [32, 64] and pictures[-1] == [640, 448]
    few, many = {"x": [1]}, {"x": [1024]}
    assert between(few, many, 0.3, liked(few, many, dict)) == {"x": [8]}, "small steps stay possible"
    few, many = {"x": [1, 100]}, {"x": [14, 1000]}  # a table of 14 positions: 16 do not run
    steps = [between(few, many, part / 50.0, liked(few, many, dict))["x"] for part in range(51)]
    assert max(step[0] for step in steps) == 14 and min(step[1] for step in steps) == 100
    assert furthest(tried, wanted, 0.0, 1e9) == 1.0
    part = furthest(tried, wanted, 0.0, 10.0)
    assert 10.0 / 2.0 < elements(between(tried, wanted, part)) / elements(tried) <= 10.0
    assert furthest(tried, wanted, 0.0, 1.1) == 0.0, "too small a step to be worth it"
    assert with_rows_of({"x": [2, 1, 4]}, {"x": [9, 5, 4]}, first_axes(PORTS)) == {"x": [2, 5, 4]}
    assert with_rows_of({"x": [9, 1, 4]}, {"x": [2, 5, 4]}, first_axes(PORTS)) == {"x": [2, 5, 4]}


def test_a_long_sequence_never_runs_as_a_trial(tmp_path: Path) -> None:
    """As it was, the first one ran, and held the device for all of its time; later it got a 503."""
    files = write_all(tmp_path)
    grants = [Grant("gold", promises={"*": Promise(0.05)}), Grant("bronze")]
    directory = StaticDirectory(grants, {hash_key(GOLD): "gold", hash_key(SILVER): "bronze"})
    entry = Entry("sequence", files["sequence"], {"x0": [1, 1, WIDTH]})
    networks = [*options(tmp_path).networks, entry]
    with running(tmp_path, networks=networks, directory=directory, max_body_bytes=2**24) as server:
        tokens = 40_000  # half a minute of attention
        asked = {"x0": [1, tokens, WIDTH]}
        status, words = post(server, asked, b"\0" * 4 * tokens * WIDTH)
        assert (status, "without a pause" in words) == (413, True), words
        stats = ask(server, "GET", "/v2/models/sequence/stats", SILVER)[1]["model_stats"][0]
        assert stats["inference_count"] == 0
        assert post(server, {"x0": [1, 1, WIDTH]}, b"\0" * 4 * WIDTH)[0] == 200


def post(server: Any, shapes: dict[str, list[int]], raw: bytes) -> tuple[int, str]:
    """Bronze's request with raw zeros."""
    import json
    from http.client import HTTPConnection

    from tests.patience import PATIENCE_S

    inputs = [{"name": name, "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": len(raw)}}
              for name, shape in shapes.items()]  # fmt: skip
    head = json.dumps(
        {"inputs": inputs, "outputs": [{"name": "x4", "parameters": {"binary_data": True}}]}
    ).encode()
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {SILVER}", "Inference-Header-Content-Length": str(len(head))}
    line.request("POST", "/v2/models/sequence/infer", head + raw, headers)
    answer = line.getresponse()
    found = answer.status, answer.read().decode(errors="replace")
    line.close()
    return found
