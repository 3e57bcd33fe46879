"""Clients of gRPC that leave, stay silent, send many messages, or break the rules: others are served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.http2.call import WINDOW
from eunomia.serving.rpc.ending import Status
from eunomia.serving.server import Server
from tests.hostile import frames
from tests.patience import until
from tests.serving.asking import HEALTH, at_rest, logits, pb, places, request, told
from tests.serving.live import GOLD, SILVER, running
from tests.serving.speaking import OIP, Client, client, message
from tests.serving.test_http2_faults import FAULTS

MANY = 4000  # of 30 bytes: a window holds them all


@pytest.mark.parametrize("how", ["reset", "hang up", "away"])
@pytest.mark.parametrize("when", ["before", "in the midst", "waiting", "stream", "watch"])
def test_who_leaves_gives_everything_back(
    quick: Server, monkeypatch: pytest.MonkeyPatch, how: str, when: str
) -> None:
    """Room, places and the request itself, whatever it has come to."""
    if when == "waiting":
        submit = quick.service._submit

        def never(*given: Any) -> Any:
            answer = submit(*given)
            waits = answer.get_loop().create_future()
            waits.add_done_callback(lambda _: None)
            return waits

        monkeypatch.setattr(quick.service, "_submit", never)
    with client(quick.grpc_port) as one:
        path = {"stream": f"{OIP}ModelStreamInfer", "watch": f"{HEALTH}Watch"}.get(when, f"{OIP}ModelInfer")
        number = one.begin(path, GOLD)
        if when == "in the midst":
            one.push(number, message(bytes(100_000), size=3 * WINDOW))
            until(lambda: quick.service.bodies.held.get("gold", 0) > 3 * WINDOW)
        elif when == "waiting":
            one.upload(number, message(request()))
            until(lambda: quick.service.limits.active("gold") == 1)
        elif when == "stream":
            one.push(number, message(request()) + message(bytes(9), size=WINDOW))
            one.listen(lambda: one.answers[number].messages)
            until(
                lambda: (
                    quick.service.bodies.held.get("gold", 0) >= WINDOW
                    and places(quick).known.held == {"gold": 1}
                )
            )
        elif when == "watch":
            one.upload(number, message(b""))
            one.listen(lambda: one.answers[number].messages)
        else:
            until(lambda: quick.service.bodies.held)
        if how == "reset":
            one.reset(number)
        elif how == "away":
            one.send(
                frames.frame(frames.AWAY, 0, 0, bytes(8)) + frames.frame(frames.RESET, 0, number, bytes(4))
            )
        else:
            one.hang_up()
        until(lambda: at_rest(quick))
    assert quick._grpc is not None
    until(lambda: len(quick._grpc.connections) == 0)


def test_a_silent_call_ends_in_time_and_its_connection_stays(tmp_path: Path) -> None:
    limits = ConnectionLimits(body_s=0.3, idle_s=0.3)
    with running(tmp_path, connections=limits) as server, client(server.grpc_port) as one:
        numbers = [
            one.begin(f"{OIP}{method}", GOLD) for method in ("ModelInfer", "ModelStreamInfer", "ModelReady")
        ]
        one.listen(lambda: all(one.answers[number].over for number in numbers))
        assert {one.answers[number].status for number in numbers} == {Status.DEADLINE_EXCEEDED}
        assert all("arrived" in told(one.answers[number]) for number in numbers)
        until(lambda: at_rest(server))


# --- streams ---------------------------------------------------------------------------------------------


def test_a_stream_answers_in_turn_and_outlives_what_fails(quick: Server) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(f"{OIP}ModelStreamInfer", GOLD)
        for n in range(30):
            one.upload(number, message(request(str(n), "small" if n % 7 else "nobody")), last=n == 29)
        one.listen(lambda: one.answers[number].over)
        found = [pb.ModelStreamInferResponse.FromString(each) for each in one.answers[number].messages]
        assert [each.infer_response.id for each in found] == [str(n) for n in range(30)]
        assert ["nobody" in each.error_message for each in found] == [not n % 7 for n in range(30)]
        assert one.answers[number].status == 0 and one.answers[number].reset is None
    until(lambda: at_rest(quick))


def test_a_stream_of_very_many_small_messages_loses_none(quick: Server) -> None:
    """A client that does not wait for answers is held back by its window, and by nothing else."""
    small = pb.ModelInferRequest(model_name="nobody", id="9" * 10).SerializeToString()
    with client(quick.grpc_port) as one:
        one.listen(lambda: one.h2.remote_settings.initial_window_size == WINDOW)
        number = one.begin(f"{OIP}ModelStreamInfer", GOLD)
        one.upload(number, MANY * message(small))
        one.listen(lambda: one.answers[number].over)
        assert one.answers[number].status == 0 and len(one.answers[number].messages) == MANY
    until(lambda: at_rest(quick))


def test_more_streams_than_a_tenant_may_have_are_told_when_to_come_again(tmp_path: Path) -> None:
    limits = ConnectionLimits(buffered_bytes=32 * 1024**2)
    with running(tmp_path, connections=limits) as server, client(server.grpc_port) as one:
        numbers = [one.begin(f"{OIP}ModelStreamInfer", SILVER) for _ in range(6)]
        refused = [one.answers[number] for number in numbers[2:]]
        one.listen(lambda: all(answer.over for answer in refused))
        assert {answer.status for answer in refused} == {Status.RESOURCE_EXHAUSTED}
        assert all(int((answer.head | answer.end)["retry-after-ms"]) >= 1 for answer in refused)
        assert not any(one.answers[number].over for number in numbers[:2])
        with client(server.grpc_port) as other:
            number = other.begin(f"{OIP}ModelStreamInfer", GOLD)
            other.upload(number, message(request()))
            other.listen(lambda: other.answers[number].over)
            assert len(other.answers[number].messages) == 1
        one.reset(numbers[0])
        until(lambda: places(server).known.held == {"silver": 1})


# --- others ----------------------------------------------------------------------------------------------


def test_whoever_breaks_the_rules_disturbs_nobody_else(quick: Server) -> None:
    with client(quick.grpc_port) as honest:
        for bad, code in FAULTS.values():
            with client(quick.grpc_port) as one:
                number = one.begin(f"{OIP}ModelStreamInfer", GOLD)
                one.send(bad)
                heard_out(one)
                assert one.away == code and one.closed
                assert honest.ask(f"{OIP}ServerLive").status == 0
                assert number in one.answers
        logits(honest.ask(f"{OIP}ModelInfer", request(), GOLD))
    until(lambda: at_rest(quick))


def heard_out(one: Client) -> None:
    """To the end of the connection."""
    while not one.closed:
        one.listen_once()
