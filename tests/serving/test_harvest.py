"""Tenants who take what others leave: steps and room by hand, two bounds, a server that hands its idle time on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eunomia.config.server import server_from
from eunomia.core.errors import ConfigError
from eunomia.serving.dispatch.admission import FIRST_S
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.harvest import Harvest, HarvestOptions
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Hopeless, Refused, ServingError, TooLarge
from eunomia.serving.service import Service
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.unsized import Wait
from tests.patience import until
from tests.serving.live import GOLD, SILVER, running
from tests.serving.test_server import ask, metrics
from tests.serving.test_shapes import Desk

TAKERS = frozenset({"taker"})


class Room:
    """Two devices and 1,000 bytes; ``inside``: who is in the server, with seconds left and bytes held."""

    def __init__(self, **options: float) -> None:
        self.inside: list[tuple[str, Job, float]] = []
        self.bytes: dict[int, int] = {}
        self.others_bytes = 0
        told = HarvestOptions(TAKERS, **options)  # type: ignore[arg-type]
        self.harvest = Harvest(told, 2, 1000, self.used, lambda: self.inside)
        self.network = CostBook(2).add("n", 1, whole=True)
        self.harvest.advance(0.0)

    def used(self, job: Job | None) -> int:
        return self.others_bytes + sum(self.bytes.values()) if job is None else self.bytes[job.number]

    def job(self, elements: int = 10) -> Job:
        return Job(0, self.network, 0.0, sizes=(elements,))

    def ask(self, tenant: str, own_s: float, now_s: float) -> None:
        """One request, which no other rule refuses."""
        job = self.job()
        self.harvest.check(tenant, job, own_s, now_s)
        self.harvest.take(tenant, job, own_s)

    def taken(self, own_s: float, now_s: float, count: int = 100) -> int:
        """How many of so many requests are admitted."""
        for n in range(count):
            try:
                self.ask("taker", own_s, now_s)
            except Refused:
                return n
        return count


def test_nothing_is_given_before_twenty_samples_are_known() -> None:
    room = Room()
    for step in range(20):
        assert room.taken(0.1, step + 0.5) == 0
    assert room.taken(0.125, 20.5) == 16  # two devices, nobody else: 2 s
    assert room.taken(0.125, 20.6) == 0 and room.taken(0.125, 21.5) == 16


@pytest.mark.parametrize("forecast", ["persistence", "ar1"])
def test_the_others_come_first(forecast: str) -> None:
    room = Room(forecast=forecast, room=0.9)  # type: ignore[arg-type]
    for step in range(30):
        for _ in range(4):
            room.harvest.ran("gold", 0.25, step + 0.5)
    room.inside = [("taker", room.job(), 0.3)]
    room.bytes[room.inside[0][1].number] = 40
    # 0.9 of two seconds, less 1 s of gold and 0.3 s that the taker has inside
    assert room.taken(0.1, 30.5) == 5
    room.ask("gold", 99.0, 30.5)  # others are never refused
    assert room.harvest.counts == {"taken": 5.0, "refused": 1.0, "taken_seconds": 0.0}


def test_memory_is_a_bound_of_its_own() -> None:
    room = Room()
    room.others_bytes = 700
    room.harvest.advance(40.0)
    assert room.taken(0.001, 40.5) == 7  # 300 bytes are left, 40 each
    with pytest.raises(Refused, match="no memory for tensors is predicted to be left") as told:
        room.harvest.check("taker", room.job(), 0.001, 40.5)
    assert told.value.retry_after_s == pytest.approx(0.5)


def test_steps_without_an_event_count_as_idle_and_a_jump_as_a_violation() -> None:
    room = Room()
    room.harvest.advance(50.0)
    assert room.harvest.shown(50.0)["others_seconds"] == 0.0
    room.harvest.ran("gold", 1.5, 50.5)
    found = room.harvest.shown(51.0)
    assert found["violations_time"] == 1.0 and found["left_seconds"] == pytest.approx(0.5)
    assert room.harvest.shown(52.0)["left_seconds"] >= 0.5  # it was one step of 60


def nothing() -> None:
    """It enters."""


def full() -> None:
    """It does not."""
    raise Refused("the server's memory for tensors is full")


class Door:
    """The service's rules before a dispatcher; ``queue``: requests of the taker; ``size``: what the rule on sizes says.

    An input of 64 elements took 2 s, of which the harvest has ``left_s``.
    """

    def __init__(self) -> None:
        self.desk = Desk()
        self.desk.ask(64, 9.0, 2.0)
        self.room = Harvest(HarvestOptions(frozenset({"gold"})), 4, 1000, lambda job: 0, list)
        self.desk.clock.time_s = 40.0
        self.room.advance(0.0)
        self.room.advance(40.0)
        self.desk.dispatcher.harvest = self.room
        self.queue, self.size = 1, list[Any]()
        self.before = self.left

    @property
    def left(self) -> tuple[float, float, float]:
        return self.room.left_s, self.room.left_bytes, self.room.counts["taken"]

    def retired(self, tenant: str, job: Job, *, answered: bool) -> None:
        """Of the same: it has no probes."""

    def check(self, grant: Grant, job: Job) -> Any:
        """The rule on sizes."""
        said = self.size.pop(0) if self.size else None
        if isinstance(said, ServingError):
            raise said
        return said

    def admit(self, job: Job, submit: Any = nothing) -> Any:
        limits = SimpleNamespace(active=lambda tenant: self.queue)
        pool = SimpleNamespace(answers=SimpleNamespace(sizes=dict[tuple[int, int], int]()))
        service: Any = SimpleNamespace(
            admission=self.desk.admission, limits=limits, holding=self, bodies=Bodies(1024), pool=pool
        )
        return Service._admit(service, Grant("gold", max_queue=1), job, submit)

    def job(self, deadline_s: float = 9.0) -> Job:
        now_s = self.desk.clock.now_s()
        return Job(self.desk.pair, self.desk.network, now_s, now_s + deadline_s, sizes=(64,))


@pytest.mark.parametrize("why", ["queue", "size"])
def test_who_is_refused_for_something_else_takes_nothing(why: str) -> None:
    door = Door()
    door.queue, door.size = (2, []) if why == "queue" else (1, [TooLarge("x")])
    with pytest.raises(Refused if why == "queue" else TooLarge):
        door.admit(door.job())
    assert door.left == door.before
    door.queue = 1
    assert door.admit(door.job()) is None
    assert door.left == (door.before[0] - 2.0, door.before[1] - 256.0, 1.0)


def test_who_finds_no_memory_gives_its_part_back() -> None:
    door = Door()
    for _ in range(3):
        with pytest.raises(Refused, match="is full"):
            door.admit(door.job(), full)
        assert door.left == door.before


def test_who_waits_until_its_size_is_known_takes_its_part_once() -> None:
    door = Door()
    door.size, job = ["a trial"], door.job()
    assert door.admit(job) == Wait("a trial") and door.left == door.before  # type: ignore[arg-type]
    assert door.admit(job) is None
    assert door.left == (door.before[0] - 2.0, door.before[1] - 256.0, 1.0)


@pytest.mark.parametrize("why", ["harvest", "queue", "size", "waits", "memory"])
def test_a_probe_that_something_else_refuses_is_made_up_for_by_the_next(why: str) -> None:
    door = Door()
    with pytest.raises(Hopeless):
        door.admit(door.job(0.02))
    door.desk.clock.time_s += FIRST_S
    left_s, job = door.room.left_s, door.job(0.02)
    if why == "harvest":
        door.room.others_s = 99.0
    door.queue = 2 if why == "queue" else 1
    door.size = {"size": [TooLarge("x")], "waits": ["a trial"]}.get(why, [])
    with suppress(Refused, TooLarge):
        assert door.admit(job, full if why == "memory" else nothing) == Wait("a trial")  # type: ignore[arg-type]
    assert not job.probe
    door.queue, door.room.left_s = 1, left_s
    assert door.admit(job) is None and job.probe
    with pytest.raises(Hopeless):
        door.admit(door.job(0.02))


def test_a_server_hands_on_what_is_idle(tmp_path: Path) -> None:
    http = pytest.importorskip("tritonclient.http")
    told = HarvestOptions(frozenset({"silver"}), step_s=0.02)
    with running(tmp_path, harvest=told) as server:
        client = http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        picture = np.zeros((1, 3, 64, 64), np.float32)

        def served(key: str) -> bool:
            try:
                return ask(http, client, key, picture).as_numpy("logits") is not None
            except http.InferenceServerException as error:
                assert "takes what others leave" in str(error)
                return False

        assert not served(SILVER) and served(GOLD)
        until(lambda: served(SILVER))
        page = dict(line.rsplit(" ", 1) for line in metrics(server) if line.startswith("eunomia_harvest{"))
        assert float(page['eunomia_harvest{what="taken"}']) == 1.0
        assert float(page['eunomia_harvest{what="refused"}']) >= 1.0
        assert float(page['eunomia_harvest{what="taken_seconds"}']) > 0.0


def test_wrong_settings() -> None:
    made = {"device": [{"name": "x"}], "tenant": [{"name": "t"}], "anonymous": True,
            "network": [{"name": "n", "builtin": "resnet50"}]}  # fmt: skip
    with pytest.raises(ConfigError, match="harvest names tenant 'u'; the tenants are: t"):
        server_from({**made, "harvest": {"tenants": ["u"]}}, (), "server", None)
    found = server_from({**made, "harvest": {"tenants": ["t"]}}, (), "server", None).harvest
    assert found is not None and found.forecast == "persistence"
