from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ModelError
from eunomia.workload import zoo
from eunomia.workload.model import DnnModel, Layer


def test_a_grouped_strided_convolution_by_hand() -> None:
    # 2 groups of 4 -> 3 channels, 3 x 5 kernel, 10 x 7 results: 6 * 70 results of 4 * 15 products each
    layer = Layer("c", "conv", 1, 2, 8, 6, 21, 14, 10, 7, 3, 5, 2, 2, weight_elements=6 * 4 * 15)
    assert layer.macs == 6 * 70 * 4 * 15
    assert layer.input_elements == 8 * 21 * 14
    assert layer.output_elements == 420


def test_layers_without_macs_count_none() -> None:
    assert Layer("p", "pool", in_channels=3, out_channels=3, kernel_h=2, kernel_w=2, ops=12).macs == 0


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kind", "magic", "unknown kind"),
        ("batch", 0, "batch = 0"),
        ("stride_w", -1, "stride_w = -1"),
        ("ops", -5, "ops = -5"),
        ("groups", 3, "3 groups"),
    ],
)
def test_impossible_layers_are_refused(field: str, value: object, message: str) -> None:
    settings = {"kind": "conv", "in_channels": 4, "out_channels": 4} | {field: value}
    with pytest.raises(ModelError, match=message):
        Layer("x", **settings)  # type: ignore[arg-type]


def test_edges_must_point_forwards_to_layers_that_exist() -> None:
    a, b = Layer("a", "elementwise"), Layer("b", "elementwise")
    with pytest.raises(ModelError, match="backwards"):
        DnnModel("m", (a, b), ((1, 0),))
    with pytest.raises(ModelError, match="backwards"):
        DnnModel("m", (a, b), ((1, 1),))
    with pytest.raises(ModelError, match="does not exist"):
        DnnModel("m", (a, b), ((0, 2),))
    with pytest.raises(ModelError, match="no layers"):
        DnnModel("m", (), ())
    with pytest.raises(ModelError, match="word_bytes = 0"):
        DnnModel("m", (a,), (), word_bytes=0)


def test_neighbours_follow_the_edges() -> None:
    layers = tuple(Layer(name, "elementwise") for name in "abcd")
    diamond = DnnModel("diamond", layers, ((0, 1), (0, 2), (1, 3), (2, 3), (0, 1)))
    assert diamond.edges == ((0, 1), (0, 2), (1, 3), (2, 3))
    assert diamond.predecessors == ((), (0,), (0,), (1, 2))
    assert diamond.successors == ((1, 2), (3,), (3,), ())
    assert not diamond.is_chain
    assert DnnModel.chain("chain", list(layers)).is_chain


def test_equal_networks_hash_equal_whatever_their_names() -> None:
    one = DnnModel("one", (Layer("a", "conv", weight_elements=1),), ())
    two = DnnModel("two", (Layer("b", "conv", weight_elements=1),), ())
    assert one.content_hash == two.content_hash
    assert one.content_hash != one.with_batch(2).content_hash


@given(st.sampled_from(zoo.names()), st.integers(1, 9))
def test_a_batch_multiplies_work_and_keeps_weights(name: str, times: int) -> None:
    model = zoo.load(name)
    many = model.with_batch(times)
    assert many.macs == times * model.macs
    assert many.params == model.params
    for one, batch in zip(model.layers, many.layers, strict=True):
        assert batch.input_elements == times * one.input_elements
        assert batch.output_elements == times * one.output_elements
        assert batch.operand_elements == times * one.operand_elements
        assert batch.ops == times * one.ops
        assert batch.weight_elements == one.weight_elements


def test_a_batch_shares_the_weights_of_a_product() -> None:
    layer = zoo.load("bert-base").with_batch(4).layers[-1]
    assert (layer.batch, layer.out_h) == (1, 4)
    assert zoo.load("resnet18").with_batch(4).layers[0].batch == 4
    with pytest.raises(ModelError, match="batch of 0"):
        zoo.load("resnet18").with_batch(0)
