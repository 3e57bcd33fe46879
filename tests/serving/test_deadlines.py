"""Clients claim deadlines; the server grants them. By hand, by property, and on a live server under ``edf+f``."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.inference.policies import load_policy
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.server import Server
from eunomia.serving.tenants.deadlines import Claim, deadline_s
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory, hash_key
from eunomia.workload.tenant import Agreement, Slo
from tests.patience import until
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, running
from tests.serving.test_dispatcher import Replay

tritongrpc = pytest.importorskip("tritonclient.grpc")
from tritonclient.utils import InferenceServerException  # noqa: E402

IMAGE = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE), np.float32)
NONE, STRICT, LOOSE, OPEN = (
    None,
    Promise(0.2),
    Promise(0.2, min_deadline_s=0.05),
    Promise(0.2, min_deadline_s=0.0),
)


@pytest.mark.parametrize("claim, without, strict, loose, opened", [  # seconds
    (Claim(), math.inf, 0.2, 0.2, 0.2),
    (Claim(slo_s=0.01), 0.01, 0.2, 0.05, 0.01),  # lifted
    (Claim(slo_s=0.1), 0.1, 0.2, 0.1, 0.1),
    (Claim(slo_s=0.2), 0.2, 0.2, 0.2, 0.2),
    (Claim(slo_s=7.0), 7.0, 7.0, 7.0, 7.0),  # loosened
    (Claim(timeout_s=0.01), 0.01, 0.2, 0.05, 0.01),
    (Claim(timeout_s=7.0), 7.0, 7.0, 7.0, 7.0),
    (Claim(call_s=0.01), 0.01, 0.2, 0.05, 0.01),
    (Claim(call_s=7.0), 7.0, 0.2, 0.2, 0.2),  # long ones are set by libraries: they loosen nothing
    (Claim(slo_s=0.5, timeout_s=0.01, call_s=0.02), 0.5, 0.5, 0.5, 0.5),
    (Claim(timeout_s=0.5, call_s=0.02), 0.5, 0.5, 0.5, 0.5),
    (Claim(slo_s=0.01, timeout_s=7.0), 0.01, 0.2, 0.05, 0.01),
])  # fmt: skip
def test_what_a_claim_comes_to(
    claim: Claim, without: float, strict: float, loose: float, opened: float
) -> None:
    found = [deadline_s(claim, promise) for promise in (NONE, STRICT, LOOSE, OPEN)]
    assert found == [without, strict, loose, opened]
    assert deadline_s(claim, NONE, shortest_s=0.06) == max(without, 0.06)
    assert deadline_s(claim, STRICT, shortest_s=9.0) == strict  # a promise knows better
    assert claim.limit_s == min(claim.timeout_s, claim.call_s)


TIMES = st.floats(1e-6, 1e4) | st.just(math.inf)


@given(
    claim=st.builds(Claim, TIMES, TIMES, TIMES),
    promised_s=st.floats(1e-3, 1e3),
    share=st.none() | st.floats(0.0, 1.0),
    floor_s=st.floats(0.0, 10.0),
)
def test_no_claim_is_sooner_than_granted(
    claim: Claim, promised_s: float, share: float | None, floor_s: float
) -> None:
    promise = Promise(promised_s, min_deadline_s=None if share is None else share * promised_s)
    assert deadline_s(claim, promise, floor_s) >= promise.shortest_s
    assert deadline_s(claim, None, floor_s) >= floor_s
    assert (
        deadline_s(Claim(call_s=claim.call_s), promise, floor_s) <= promised_s
    )  # a call's deadline stretches nothing
    if claim.slo_s == claim.timeout_s == math.inf and share is None:
        assert (
            deadline_s(claim, promise, floor_s) == promised_s
        )  # what the client does not say is what was promised


def test_what_a_client_gives_up_early_breaks_no_promise_while_it_could_be_kept() -> None:
    """One block of 6 s, due at 10: early is before 5, and until 4 it can be met."""
    replay = Replay(load_policy("edf"), np.array([[6.0]]), [1], DispatchOptions())
    dispatcher = replay.dispatcher
    dispatcher.add_pair(Agreement("t", "m0", Slo(0.9)))
    for at_s, count, sli in ((3.0, 0, math.nan), (4.0, 0, math.nan), (4.5, 1, 0.0), (11.0, 2, 0.0)):
        replay.clock.time_s = at_s
        dispatcher.leave(job(replay, 10.0), dropped=True, by_client=True)
        indicator = dispatcher.indicators[0]
        assert indicator.count == count and (indicator.sli == sli or math.isnan(sli))
    dispatcher.leave(job(replay, math.inf), dropped=True, by_client=True)  # never due, never missed
    assert dispatcher.indicators[0].count == 2
    dispatcher.leave(job(replay, 99.0), dropped=True)  # given up by the server
    assert dispatcher.indicators[0].count == 3 and dispatcher.finished == 6


def job(replay: Replay, due_s: float) -> Job:
    return Job(0, replay.networks[0], 0.0, due_s)


# --- live ---------------------------------------------------------------------------------------------


@dataclass
class Crowd:
    """Requests under way."""

    server: Server
    stub: Any
    answers: list[Any]

    def send(self, key: str, parameters: dict[str, Any] | None = None, **more: Any) -> None:
        """One picture; returns when the server holds it, or its client has given up."""
        tensor = tritongrpc.InferInput("image", list(IMAGE.shape), "FP32")
        tensor.set_data_from_numpy(IMAGE)
        headers, before = {"authorization": f"Bearer {key}"}, (self.accepted, len(self.answers))
        self.stub.async_infer(
            "small", [tensor], lambda result, error: self.answers.append(error), headers=headers,
            parameters=parameters, **more,
        )  # fmt: skip
        until(lambda: (self.accepted, len(self.answers)) != before)

    @property
    def accepted(self) -> int:
        """Requests that wait or were given up; nothing runs yet."""
        return len(self.server.pool.dispatcher.waiting) + self.server.pool.dispatcher.finished


@contextmanager
def held(folder: Path, **changes: Any) -> Iterator[tuple[Crowd, threading.Event]]:
    """Under ``edf+f``, which starts nothing until the event is set.

    Gold was promised 400 s; silver 3000 s, and may claim no less; root nothing.
    """
    grants = [
        Grant("gold", promises={"*": Promise(400.0, Slo(0.9))}),
        Grant("silver", promises={"*": Promise(3000.0, Slo(0.9))}), Grant("root"),
    ]  # fmt: skip
    keys = {hash_key(GOLD): "gold", hash_key(SILVER): "silver", hash_key(ADMIN): "root"}
    go, edf = threading.Event(), load_policy("edf+f")
    changes = {"directory": StaticDirectory(grants, keys), **changes}
    with running(folder, policy=lambda view: edf(view) if go.is_set() else [], **changes) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        try:
            yield Crowd(server, stub, []), go
        finally:
            stub.close()


def test_a_client_that_cheats_delays_nobody(tmp_path: Path) -> None:
    with held(tmp_path, min_deadline_s=1000.0) as (crowd, go):
        for claim in (
            {"parameters": {"slo_ms": 200_000}},
            {"timeout": 200_000_000},
            {"client_timeout": 200.0},
        ):
            crowd.send(SILVER, **claim)
            crowd.send(ADMIN, **claim)
        crowd.send(GOLD)
        crowd.send(GOLD, parameters={"slo_ms": 900_000})  # one may always ask for less
        go.set()
        until(lambda: len(crowd.answers) == 8)
        assert crowd.answers == [None] * 8
        order = [run.tenant for run in crowd.server.service.books.history.runs]
        assert order == ["gold", "gold", "root", "root", "root", "silver", "silver", "silver"]
        due_s = [(r[1], round(r[3])) for r in crowd.server.service.books.recording.requests()]
        assert due_s == [("gold", 400), ("gold", 900)] + 3 * [("root", 1000)] + 3 * [("silver", 3000)]


def test_an_impossible_claim_makes_no_tenant_look_let_down(tmp_path: Path) -> None:
    with held(tmp_path, ledger_dir=tmp_path / "ledger") as (crowd, go):
        for claim in (
            {"timeout": 200_000},
            {"client_timeout": 0.2},
            {"timeout": 250_000, "parameters": {"slo_ms": 1}},
        ):
            crowd.send(GOLD, **claim)
        until(lambda: len(crowd.answers) == 3 and not len(crowd.server.pool.dispatcher.waiting))
        assert all(isinstance(answer, InferenceServerException) for answer in crowd.answers)
        gold = crowd.server.pool.dispatcher.indicators[0]
        assert gold.count == 0 and gold.gap == 0.0  # no policy sees a shortfall
        assert crowd.server.service.ledger is not None
        outcomes = crowd.server.service.ledger.usage["gold", "small"].outcomes
        # On a busy machine, 0.2 s may be over before the server has read the call: then it counts nothing.
        assert outcomes["expired"] >= 2 and outcomes.keys() <= {"expired", "cancelled"}
        assert 2 <= sum(outcomes.values()) <= 3
        crowd.send(GOLD, parameters={"slo_ms": 0.001})  # lifted to what was promised, so not refused
        go.set()
        until(lambda: len(crowd.answers) == 4)
        assert crowd.answers[3] is None and (gold.count, gold.sli) == (1, 1.0)


def test_who_was_promised_nothing_may_claim_anything_and_is_refused_the_impossible(tmp_path: Path) -> None:
    with held(tmp_path) as (crowd, go):
        go.set()
        stub = crowd.stub
        tensor = tritongrpc.InferInput("image", list(IMAGE.shape), "FP32")
        tensor.set_data_from_numpy(IMAGE)
        for key, claim, says in (
            (ADMIN, {"parameters": {"slo_ms": 0.001}}, "the deadline is 0.0 ms away"),
            (GOLD, {"timeout": 1}, "the timeout is 0.0 ms away"),
        ):  # fmt: skip
            with pytest.raises(InferenceServerException, match=says):
                stub.infer("small", [tensor], headers={"authorization": f"Bearer {key}"}, **claim)
        assert all(indicator.count == 0 for indicator in crowd.server.pool.dispatcher.indicators)
