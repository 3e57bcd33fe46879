"""gRPC among strangers: no message without a key, few at a time with one, none for ever; large ones off the loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.protocol.errors import BadRequest, Refused, ServingError
from eunomia.serving.protocol.infer import SMALL_BYTES
from eunomia.serving.server import Server
from eunomia.serving.tenants.circle import stranger_at
from eunomia.serving.tenants.slots import Slots
from tests.patience import PATIENCE_S, until, until_async
from tests.serving.live import GOLD, SIDE, SILVER, running
from tests.serving.made_up import examples, messages
from tests.serving.stalling import WINDOW, Stalling, stalling

grpc = pytest.importorskip("grpc")
from tritonclient.grpc import service_pb2 as pb  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402

from eunomia.serving.fronts import grpc_wire  # noqa: E402
from eunomia.serving.fronts.barring import Connected  # noqa: E402
from eunomia.serving.fronts.connections import ConnectionLimits  # noqa: E402
from eunomia.serving.fronts.grpc import caller_of  # noqa: E402
from eunomia.serving.fronts.grpc_door import Door, DoorLimits  # noqa: E402
from eunomia.serving.protocol.rpc import (  # noqa: E402
    MAX_FIELDS,
    _number,
    parse_message,
    read_message,
    split_message,
    take_contents_out,
)

MIB = 1024**2
STREAMS, SIZE = 8, 3 * MIB
MANY = 600  # more than a connection may have streams
IMAGE = np.random.default_rng(0).random((1, 3, SIDE, SIDE), np.float32)
FEW = ConnectionLimits(buffered_bytes=256 * 1024, body_s=4.0, idle_s=4.0)  # the least number of places: four


def path(name: str) -> str:
    return f"/inference.GRPCInferenceService/{name}"


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


def address(server: Server) -> str:
    return f"127.0.0.1:{server.grpc_port}"


def infer(server: Server, name: str = GOLD, *, typed: bool = False, request_id: str = "7") -> Any:
    message = pb.ModelInferRequest(model_name="small", id=request_id)
    entry = message.inputs.add(name="image", datatype="FP32", shape=IMAGE.shape)
    if typed:
        entry.contents.fp32_contents.extend(IMAGE.ravel().tolist())
    else:
        message.raw_input_contents.append(IMAGE.tobytes())
    with grpc.insecure_channel(address(server)) as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        return stub.ModelInfer(message, metadata=tuple(key(name).items()), timeout=PATIENCE_S)


def test_one_connection_with_more_calls_than_streams_loses_none(plain: Server) -> None:
    # The library refuses streams while old ones are not taken down yet, and clients report UNAVAILABLE: 9 of 10 here.
    message = pb.ModelInferRequest(model_name="small")
    message.inputs.add(name="image", datatype="FP32", shape=IMAGE.shape)
    message.raw_input_contents.append(IMAGE.tobytes())
    with grpc.insecure_channel(address(plain)) as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        calls = [stub.ModelInfer.future(message, metadata=tuple(key(GOLD).items())) for _ in range(MANY)]
        assert {call.exception(PATIENCE_S) for call in calls} == {None}


@pytest.mark.parametrize(
    "rpc", ["ModelInfer", "ModelStreamInfer", "ServerLive", "ModelMetadata", "NoSuchRpc"]
)
def test_without_a_key_no_message_is_taken_in(plain: Server, rpc: str) -> None:
    with stalling(address(plain)) as line:
        for _ in range(STREAMS):
            line.begin(path(rpc), SIZE, {})
        assert line.push(SIZE - 1) <= STREAMS * WINDOW
        assert line.hear_out(STREAMS, PATIENCE_S) == STREAMS


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with few places."""
    with running(tmp_path_factory.mktemp("narrow"), connections=FEW) as live:
        yield live


def test_a_tenant_holds_few_messages_that_never_end_and_they_do_end(narrow: Server) -> None:
    with stalling(address(narrow)) as line:
        for _ in range(STREAMS):
            line.begin(path("ModelInfer"), SIZE, key(SILVER))
        assert line.push(SIZE - 1) <= 2 * SIZE + STREAMS * WINDOW
        assert infer(narrow).model_name == "small"  # gold does not wait for silver
        assert line.hear_out(STREAMS, PATIENCE_S) == STREAMS


def test_a_tenant_has_few_streams_and_a_silent_one_ends(narrow: Server) -> None:
    with stalling(address(narrow)) as line:
        for _ in range(STREAMS):
            line.begin(path("ModelStreamInfer"), SIZE, key(SILVER))
        assert line.push(SIZE - 1) <= 2 * SIZE + STREAMS * WINDOW
        with stalling(address(narrow)) as other:
            other.begin(path("ModelStreamInfer"), SIZE, key(GOLD))
            assert other.push(SIZE - 1) > WINDOW
        assert line.hear_out(STREAMS, PATIENCE_S) == STREAMS


def test_no_more_connections_than_the_limit(tmp_path: Path) -> None:
    with running(tmp_path, connections=ConnectionLimits(most=3)) as server:
        lines = [Stalling(address(server)) for _ in range(8)]
        for line in lines:
            line.begin(path("ServerLive"), 1, {})

        def counted() -> bool:
            for line in lines:
                line.hear_out(1, 0.01)
            return (sum(line.closed for line in lines), sum(len(line.ended) for line in lines)) == (5, 3)

        until(counted)
        for line in lines:
            line.close()


def test_numbers_one_by_one_give_the_answer_of_raw_ones(plain: Server, tmp_path: Path) -> None:
    assert infer(plain, typed=True).raw_output_contents == infer(plain).raw_output_contents
    with running(tmp_path, max_json_bytes=10_000, max_grpc_bytes=60_000) as server:
        for asked, said in (
            ({"typed": True}, "use raw_input_contents"),
            ({"request_id": "7" * 60_000}, "larger than max .* vs. 60000"),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                infer(server, **asked)
            assert re.search(said, caught.value.details())


# --- messages taken apart --------------------------------------------------------------------------------


def outcome(work: Any) -> Any:
    try:
        request = work()
    except ServingError as error:
        return type(error)
    tensors = [(t.name, t.datatype, t.shape, repr(t.data)) for t in request.inputs]
    told = repr(sorted(request.parameters.items()))  # protobuf keeps a map in any order
    return request.model, request.request_id, tensors, repr(request.outputs), told


@examples(2.0)
@given(message=messages())
def test_a_message_taken_apart_says_what_protobuf_says(message: Any) -> None:
    data = message.SerializeToString()

    def apart(*, numbers_too: bool) -> Any:
        rest, raw = split_message(data, len(data))
        if numbers_too:
            rest, numbers = take_contents_out(rest)
            return read_message(parse_message(rest), raw, numbers)
        return read_message(parse_message(rest), raw)

    whole = outcome(lambda: read_message(pb.ModelInferRequest.FromString(data)))
    assert outcome(lambda: apart(numbers_too=False)) == whole
    again = outcome(lambda: apart(numbers_too=True))
    assert again == whole or (isinstance(again, type) and isinstance(whole, type))


@examples(8.0)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused_in_words(data: bytes) -> None:
    try:
        rest, raw = split_message(data, len(data))
        parse_message(rest)
    except BadRequest as error:
        assert str(error)
    else:
        whole = pb.ModelInferRequest.FromString(data)
        assert [bytes(piece) for piece in raw] == list(whole.raw_input_contents)


def test_a_message_of_very_many_fields_is_refused() -> None:
    data = pb.ModelInferRequest(raw_input_contents=[b""] * 10_000).SerializeToString()
    with pytest.raises(BadRequest, match=f"more than {MAX_FIELDS} fields"):
        split_message(data, len(data))


@pytest.mark.parametrize("field", ["id", "model_name", "parameters", "outputs", "inputs", "shapes"])
def test_long_words_are_refused_before_anybody_copies_them(field: str) -> None:
    """Numbers may be many, and go to a process of their own; nothing else has a reason to be long."""
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP32", shape=[90_000]).contents.fp32_contents.extend(
        [0.5] * 90_000
    )
    assert len(split_message(message.SerializeToString(), 10**6)[0]) > SMALL_BYTES
    if field == "parameters":
        for n in range(40):
            message.parameters[str(n)].string_param = "a" * 1000
    elif field in ("inputs", "outputs"):
        getattr(message, field).add(name="a" * 40_000)
    elif field == "shapes":
        message.inputs[0].shape.extend([1] * 40_000)
    else:
        setattr(message, field, "a" * 40_000)
    with pytest.raises(
        BadRequest, match=r"[34]\d{4} bytes of names, ids and parameters; at most 32768 are taken"
    ):
        split_message(message.SerializeToString(), 10**6)


@pytest.mark.parametrize("torn", [b"\x2a\x05\x0a\x7f", b"\x0f", b"\x08" + b"\xff" * 12])
def test_an_input_that_is_no_message_is_refused(torn: bytes) -> None:
    """Only the inputs of a message that is not small are looked into."""
    inner = torn + bytes(SMALL_BYTES)
    data = b"\x2a" + _number(len(inner)) + inner
    with pytest.raises(BadRequest):
        parse_message(split_message(data, len(data))[0])
    many = b"\x0a\x00" * (SMALL_BYTES // 2 + 1)
    with pytest.raises(BadRequest, match=f"an input of the message has more than {MAX_FIELDS} fields"):
        split_message(b"\x2a" + _number(len(many)) + many, 10**6)


def test_of_a_key_that_is_given_twice_the_first_counts() -> None:
    """Whoever stands in front may have looked at the first alone."""
    metadata = (
        ("authorization", "Bearer a"),
        ("x-tenant-id", "t"),
        ("authorization", "Bearer b"),
        ("x-tenant-id", "u"),
    )
    context: Any = Mock()
    context.invocation_metadata.return_value, context.time_remaining.return_value = metadata, None
    context.peer.return_value = "ipv4:192.0.2.1:4711"
    caller = caller_of(context)
    assert (caller.key, caller.tenant_id) == ("a", "t")


# --- places ----------------------------------------------------------------------------------------------


@examples(2.0)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(1, 9))
def test_places_are_held_as_a_plain_count_says(steps: list[tuple[str, bool]], most: int) -> None:
    """Each step takes a place for a tenant or gives one back; who gets none at once waits."""

    async def played() -> None:
        slots, tasks, doors = Slots(most, "messages"), [], {name: [] for name in "abc"}

        async def work(name: str, door: asyncio.Event) -> None:
            async with slots.soon(name):
                await door.wait()

        for name, enters in steps:
            if enters:
                door = asyncio.Event()
                doors[name].append(door)
                tasks.append(asyncio.create_task(work(name, door)))
            elif doors[name]:
                doors[name].pop(0).set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            held = sum(slots.held.values())
            assert slots.free == most - held >= 0
            for name_, count in slots.held.items():
                assert count == 1 or count <= most - held + sum(
                    other for who, other in slots.held.items() if who != name_
                )
        for door in [door for queue in doors.values() for door in queue]:
            door.set()
        await until_async(lambda: all(task.done() for task in tasks))
        assert slots.free == most and not slots.held

    asyncio.run(played())


def test_who_floods_gets_half_and_others_get_in() -> None:
    slots = Slots(8, "streams")
    held = []
    for _ in range(8):
        try:
            place = slots.now("bronze")
            place.__enter__()
        except Refused:
            break
        held.append(place)
    assert len(held) == 4
    with slots.now("gold"), slots.now("gold"):
        pass


def test_a_message_that_is_here_waits_for_its_turn_and_keeps_its_place() -> None:
    """A thousand at once go one in each round of the loop; what waits is no more than the places hold."""

    async def run() -> None:
        went: list[str] = []
        gate = asyncio.Event()

        async def turn(tenant: str) -> None:
            await gate.wait()
            went.append(tenant)

        async def as_it_is(message: bytes, most: int, tenant: str) -> bytes:
            return message

        door = Door(DoorLimits(PATIENCE_S, PATIENCE_S, 4), as_it_is, turn)
        context: Any = SimpleNamespace(read=lambda: asyncio.sleep(0, b"message"), peer=lambda: "")
        reading = [asyncio.create_task(door.read(context, "bronze")) for _ in range(5)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert door.messages.held == {"bronze": 2} and not went
        gate.set()
        assert await asyncio.gather(*reading) == [b"message"] * 5 and went == ["bronze"] * 5

    asyncio.run(run())


def test_strangers_whose_messages_do_not_come_keep_no_tenant_waiting() -> None:
    """As it was, health checks from sixty addresses held all places, each for ``body_s``."""

    async def run() -> None:
        async def at_once(tenant: str) -> None: ...

        async def as_it_is(message: bytes, most: int, tenant: str) -> bytes:
            return message

        door, gate = Door(DoorLimits(PATIENCE_S, PATIENCE_S, 4), as_it_is, at_once), asyncio.Event()
        silent = SimpleNamespace(read=gate.wait, peer=lambda: "")
        whole: Any = SimpleNamespace(read=lambda: asyncio.sleep(0, b"message"), peer=lambda: "")
        crowd = [asyncio.create_task(door.read(silent, stranger_at(f"10.0.0.{n}"))) for n in range(60)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert await door.read(whole, GOLD) == b"message"
        async with door.stream(whole, GOLD) as messages:
            assert await anext(messages) == b"message"
        for one in crowd:
            one.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        assert await door.read(whole, stranger_at("10.0.1.0")) == b"message"

    asyncio.run(run())


def test_many_clients_of_one_address_may_watch_the_servers_health(plain: Server) -> None:
    """Stock clients with health checking fail every call without their watch."""
    with grpc.insecure_channel(address(plain)) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls = [watch(b"", timeout=PATIENCE_S) for _ in range(40)]
        assert [next(call) for call in calls] == [b"\x08\x01"] * 40
        for call in calls:
            call.cancel()


def test_a_message_that_its_client_takes_back_is_no_flood() -> None:
    """The library calls it the end of the call, not an error: its bytes came, and belong to no message."""

    async def taken_back() -> object:
        return grpc.aio.EOF

    async def at_once(tenant: str) -> None: ...

    async def as_it_is(message: bytes, most: int, tenant: str) -> bytes:
        return message

    door, largest = Door(DoorLimits(60.0, 60.0, 4), as_it_is, at_once), 16 * MIB
    context = SimpleNamespace(read=taken_back, peer=lambda: "a")
    with pytest.raises(BadRequest, match="no message"):
        asyncio.run(door.read(context, GOLD, largest))
    received = largest + grpc_wire.STREAMS * (grpc_wire.WINDOW + grpc_wire.CALL)
    door.wire._judge(Connected(0, 0, "a", received), door.wire._account("a").since_s)
    assert door.wire.ended == 0
