"""gRPC among strangers: no message without a key, few at a time with one, none for ever; large ones off the loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.protocol.errors import BadRequest, Refused, ServingError
from eunomia.serving.protocol.infer import SMALL_BYTES
from eunomia.serving.server import Server
from eunomia.serving.tenants.slots import Slots
from tests.patience import PATIENCE_S, until, until_async
from tests.serving.live import GOLD, SIDE, SILVER, running
from tests.serving.made_up import examples, messages
from tests.serving.stalling import Stalling, stalling

grpc = pytest.importorskip("grpc")
from tritonclient.grpc import service_pb2 as pb  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402

from eunomia.serving.devices.messages import MAX_TENSORS  # noqa: E402
from eunomia.serving.fronts.connections import ConnectionLimits  # noqa: E402
from eunomia.serving.http2.call import WINDOW  # noqa: E402
from eunomia.serving.protocol.fields import MAX_FIELDS  # noqa: E402
from eunomia.serving.protocol.rpc import (  # noqa: E402
    INPUT_FIELDS,
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
FEW = ConnectionLimits(buffered_bytes=16 * MIB, body_s=4.0, idle_s=4.0)  # the least number of places: four


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
        assert not plain.service.bodies.held
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
            stay = [line for line in lines if not line.closed]
            return len(stay) == 3 and all(len(line.ended) == 1 for line in stay)

        until(counted)
        for line in lines:
            line.close()


def test_numbers_one_by_one_give_the_answer_of_raw_ones(plain: Server, tmp_path: Path) -> None:
    assert infer(plain, typed=True).raw_output_contents == infer(plain).raw_output_contents
    with running(tmp_path, max_json_bytes=10_000, max_body_bytes=60_000) as server:
        for asked, said in (
            ({"typed": True}, "use raw_input_contents"),
            ({"request_id": "7" * 60_000}, "the message has 109188 bytes; at most 60000 are taken here"),
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
            left, numbers = take_contents_out(bytes(rest.joined()))
            return read_message(parse_message(left), raw, numbers)
        return read_message(parse_message(bytes(rest.joined())), raw)

    whole = outcome(lambda: read_message(pb.ModelInferRequest.FromString(data)))
    assert outcome(lambda: apart(numbers_too=False)) == whole
    again = outcome(lambda: apart(numbers_too=True))
    assert again == whole or (isinstance(again, type) and isinstance(whole, type))


@examples(8.0)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused_in_words(data: bytes) -> None:
    try:
        rest, raw = split_message(data, len(data))
        parse_message(bytes(rest.joined()))
    except BadRequest as error:
        assert str(error)
    else:
        whole = pb.ModelInferRequest.FromString(data)
        assert [bytes(piece) for piece in raw] == list(whole.raw_input_contents)


def test_a_message_of_very_many_fields_is_refused() -> None:
    data = b"\x32\x00" * 10_000  # outputs that say nothing
    with pytest.raises(BadRequest, match=f"more than {MAX_FIELDS} fields"):
        split_message(data, len(data))
    most = pb.ModelInferRequest(raw_input_contents=[b""] * MAX_TENSORS).SerializeToString()
    assert len(split_message(most, len(most))[1]) == MAX_TENSORS


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
        parse_message(bytes(split_message(data, len(data))[0].joined()))
    many = b"\x0a\x00" * (SMALL_BYTES // 2 + 1)
    with pytest.raises(BadRequest, match=f"the list of inputs has more than {INPUT_FIELDS} fields"):
        split_message(b"\x2a" + _number(len(many)) + many, 10**6)


def test_all_inputs_together_have_so_many_fields() -> None:
    """Contents without numbers counted nowhere: of 1,000 inputs with 2,000 each, a turn took 50 ms."""
    empties = b"\x2a\x00" * 100  # of the contents of an input
    one = b"\x2a" + _number(len(empties)) + empties
    numbers = b"\x2a" + _number(SMALL_BYTES) + bytes(SMALL_BYTES)
    split_message(one * (INPUT_FIELDS // 100) + b"\x2a" + _number(len(numbers)) + numbers, 10**6)
    with pytest.raises(BadRequest, match=f"the list of inputs has more than {INPUT_FIELDS} fields"):
        split_message(one * 200, 10**6)
    for head, what in ((b"\x2a", "inputs"), (b"\x3a", "raw_input_contents")):
        with pytest.raises(BadRequest, match=f"more than {MAX_TENSORS} {what}; at most {MAX_TENSORS}"):
            split_message((head + b"\x00") * (MAX_TENSORS + 1), 10**6)


def test_of_two_keys_none_counts(plain: Server) -> None:
    """Whoever stands in front may have looked at the first alone, or at the last."""
    asked = pb.ModelMetadataRequest(name="small")
    good, bad = ("authorization", f"Bearer {GOLD}"), ("authorization", "Bearer eun_nobody")
    with grpc.insecure_channel(address(plain)) as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        for metadata in ((good, bad), (bad, good)):
            with pytest.raises(grpc.RpcError) as caught:
                stub.ModelMetadata(asked, metadata=metadata, timeout=PATIENCE_S)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


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


def test_strangers_whose_messages_do_not_come_keep_no_tenant_waiting(narrow: Server) -> None:
    """Health checks from sixty addresses held all places once, each for ``body_s``."""
    with ExitStack() as crowd:
        for n in range(60):
            line = crowd.enter_context(stalling(address(narrow), f"127.0.1.{n}"))
            line.begin("/grpc.health.v1.Health/Check", 9, {})
            line.begin(path("ModelStreamInfer"), SIZE, {})
        assert infer(narrow).model_name == "small"
        with grpc.insecure_channel(address(narrow)) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            assert check(b"", timeout=PATIENCE_S) == b"\x08\x01"
            stream = stubs.GRPCInferenceServiceStub(channel).ModelStreamInfer(
                iter([pb.ModelInferRequest(model_name="small", id="8")]),
                metadata=tuple(key(GOLD).items()),
                timeout=PATIENCE_S,
            )
            assert next(stream).infer_response.id == "8"


def test_many_clients_of_one_address_may_watch_the_servers_health(plain: Server) -> None:
    """Stock clients with health checking fail every call without their watch."""
    with grpc.insecure_channel(address(plain)) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls = [watch(b"", timeout=PATIENCE_S) for _ in range(40)]
        assert [next(call) for call in calls] == [b"\x08\x01"] * 40
        for call in calls:
            call.cancel()


def test_messages_that_their_clients_take_back_are_no_flood(plain: Server) -> None:
    """Their bytes came, and belong to no call: its deadline passed meanwhile."""
    with stalling(address(plain)) as line:
        for _ in range(200):
            number = line.begin(path("ModelInfer"), SIZE, key(GOLD))
            line.take_back(number, bytes(3 * 16384))
        until(lambda: not plain.service.bodies.held)
        last = line.begin(path("ServerLive"), 0, {})
        line.end(last)
        assert line.hear_out(1, PATIENCE_S) and not line.closed and last in line.ended
    assert infer(plain).model_name == "small"
