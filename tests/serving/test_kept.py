"""What is remembered of a tenant's requests is not driven out by another's."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts.foresight import KEPT
from eunomia.serving.protocol import infer
from eunomia.serving.protocol.infer import FORMS, read_request
from eunomia.serving.tenants.kept import Kept
from tests.serving.made_up import examples

pb = pytest.importorskip("tritonclient.grpc.service_pb2")

from eunomia.serving.protocol import rpc  # noqa: E402

HEADER = b'{"id": "%d", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], '
HEADER += b'"parameters": {"binary_data_size": 4}}]}'


@examples(2.0)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), max_size=60), st.integers(1, 8))
def test_it_holds_so_much_and_the_largest_gives_way(asked: list[tuple[str, int]], most: int) -> None:
    kept = Kept[str](most)
    for tenant, key in asked:
        had = {t: list(own) for t, own in kept._of.items()}
        kept.keep(tenant, key, f"{tenant}{key}")
        assert kept.find(tenant, key) in (f"{tenant}{key}", None)
        gone = Counter({t: len(set(own) - set(kept._of.get(t, ()))) for t, own in had.items()})
        for whose in +gone:
            assert len(had[whose]) >= max(len(own) for own in had.values()) - 1
        assert kept._total == sum(map(len, kept._of.values())) <= most and all(kept._of.values())


def test_what_was_used_last_stays() -> None:
    kept = Kept[int](3)
    for key in (1, 2, 3):
        kept.keep("a", key, key)
    assert kept.find("a", 1) == 1 and kept.find("b", 1) is None
    kept.keep("b", 4, 4)
    assert [kept.find("a", key) for key in (1, 2, 3)] == [1, None, 3] and kept.find("b", 4) == 4


def test_forms_of_one_tenant_outlive_the_many_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, 256 headers of bronze's drove gold's out, which was read anew each time."""
    parsed = Counter[str]()
    for module, name in ((infer, "read_json"), (rpc, "parse_message")):
        monkeypatch.setattr(module, name, counted(parsed, name, getattr(module, name)))
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP32", shape=[1])

    def send(tenant: str, number: int) -> None:
        message.id = str(number)
        read_request("m", "", HEADER % number, memoryview(bytes(4)), tenant=tenant)
        rpc.read_again(message.SerializeToString(), [bytes(4)], tenant)

    send("gold", 0)
    for number in range(2 * FORMS):
        send("bronze", number)
    parsed.clear()
    send("gold", 0)
    assert not parsed
    send("bronze", 0)
    assert parsed == {"read_json": 1, "parse_message": 1}
    assert KEPT == FORMS


def counted(seen: Counter[str], name: str, work: object) -> object:
    def noting(*given: object) -> object:
        seen[name] += 1
        return work(*given)  # type: ignore[operator]

    return noting
