"""Dataflows of one's own: a published one, a slow twin of the rules, faults by name, costs that follow the code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.array_mapping import (
    INPUTS,
    LOOPS,
    OUTPUTS,
    WEIGHTS,
    ArrayMapping,
    Moved,
    Room,
    lengths,
    moved_by,
)
from eunomia.hardware.build import build_table
from eunomia.hardware.conformance import LAYERS, arrays, check_dataflow
from eunomia.hardware.nest import Nest, nest_of
from eunomia.hardware.types import cost_of, load_type, read_type
from eunomia.workload import zoo
from eunomia.workload.model import Layer
from tests.hardware.test_cost_model import compulsory_bytes

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "hardware"
SHIDIANNAO = f"{EXAMPLES / 'shidiannao.py'}:shidiannao"


def shidiannao() -> AcceleratorType:
    kind = read_type(EXAMPLES / "shidiannao.toml")
    assert isinstance(kind, AcceleratorType)
    return kind


def test_a_published_dataflow_worked_by_hand() -> None:
    """LeNet-5's first layer: 28 x 28 outputs in 4 x 4 blocks of 8 x 8, six filters, 25 products each."""
    layer = Layer("C1", "conv", 1, 1, 1, 6, 32, 32, 28, 28, 5, 5, weight_elements=156)
    found = cost_of(layer, shidiannao()).traffic
    assert (found.compute_cycles, found.active_pes) == (4 * 4 * 6 * 25, 64)
    moved = moved_by(
        ArrayMapping({"p": 8, "q": 8}, {"r": 5, "s": 5}, "gbkpqcrs"), nest_of(layer), Room(1, 25, 1)
    )
    assert moved is not None
    assert moved.input_words == 6 * (3 * 12 + 8) ** 2  # blocks need 12 rows, the last 8, for every filter
    assert moved.weight_words == 16 * 156  # a kernel is sent anew for every block: an element keeps one value
    assert (moved.sums_read, moved.sums_written) == (0, 6 * 28 * 28)


def test_published_networks_on_it() -> None:
    """Never below the work of 64 multipliers, nor below each tensor once."""
    kind = shidiannao()
    for layer in zoo.load("squeezenet").layers:
        cost = cost_of(layer, kind)
        assert cost.compute_s >= layer.macs / 64 / 1e9
        assert not layer.has_macs or cost.dram_bytes >= compulsory_bytes(layer, kind) * (1 - 1e-9)


def test_it_keeps_its_contract() -> None:
    check_dataflow(SHIDIANNAO)
    check_dataflow(SHIDIANNAO, [shidiannao()])


# --- the rules against loops that are walked


def walked(mapping: ArrayMapping, nest: Nest, room: Room) -> Moved | None:
    """Every pass in order, with the values of each operand as sets."""
    length = lengths(nest)
    across = {x: min(mapping.across.get(x, 1), length[x]) for x in LOOPS}
    size = {x: min(across[x] * mapping.inside.get(x, 1), length[x]) for x in LOOPS}
    size = {x: min(across[x] * -(-size[x] // across[x]), length[x]) for x in LOOPS}
    own = {x: -(-size[x] // across[x]) for x in LOOPS}
    order = [*(x for x in LOOPS if x not in mapping.order), *mapping.order]
    parts = {
        x: [range(at, min(at + size[x], length[x])) for at in range(0, length[x], size[x])] for x in LOOPS
    }
    span = {"p": (nest.stride_h, "r"), "q": (nest.stride_w, "s")}
    step = {
        "r": (nest.span_h - 1) // max(nest.r - 1, 1) if nest.r > 1 else 1,
        "s": (nest.span_w - 1) // max(nest.s - 1, 1) if nest.s > 1 else 1,
    }

    def rows(part: dict[str, range], loop: str) -> int:
        stride, kernel = span[loop]
        return len({stride * y + step[kernel] * r for y in part[loop] for r in part[kernel]})

    def words(operand: frozenset[str], part: dict[str, range]) -> int:
        if operand is not INPUTS:
            return math.prod(len(part[x]) for x in operand)
        return rows(part, "p") * rows(part, "q") * math.prod(len(part[x]) for x in "gbc")

    one = {x: range(own[x]) for x in LOOPS}
    stored = {operand: words(operand, one) for operand in (WEIGHTS, INPUTS, OUTPUTS)}
    needed = (
        stored[WEIGHTS] if any(own[x] > 1 for x in "bpq") else 1,
        stored[INPUTS] if any(own[x] > 1 for x in "krs") else 1,
        stored[OUTPUTS],
    )
    if any(n > r for n, r in zip(needed, (room.weights, room.inputs, room.sums), strict=True)):
        return None
    keeps = {
        WEIGHTS: stored[WEIGHTS] <= room.weights,
        INPUTS: stored[INPUTS] <= room.inputs,
        OUTPUTS: True,
    }
    moved = dict.fromkeys((WEIGHTS, INPUTS, OUTPUTS), 0)
    last: dict[frozenset[str], object] = {}
    cycles = sums_read = 0
    seen = set()
    for chosen in itertools.product(*(parts[x] for x in order)):
        part = dict(zip(order, chosen, strict=True))
        cycles += math.prod(-(-len(part[x]) // across[x]) for x in LOOPS)
        for operand in moved:
            key = tuple(part[x] for x in LOOPS if x in operand)
            if keeps[operand] and last.get(operand) == key:
                continue
            last[operand] = key
            moved[operand] += words(operand, part)
            if operand is OUTPUTS:
                sums_read += words(operand, part) if key in seen else 0
                seen.add(key)
    first = {x: parts[x][0] for x in LOOPS}
    return Moved(
        cycles, moved[INPUTS], moved[WEIGHTS], sums_read, moved[OUTPUTS],
        math.prod(across.values()), words(WEIGHTS, first) + words(INPUTS, first),
    )  # fmt: skip


@st.composite
def mapped(draw: st.DrawFn) -> tuple[ArrayMapping, Nest, Room]:
    """A small nest, a legal mapping, and elements of a few words."""
    whole = st.integers(1, 4)
    sizes = {x: draw(st.integers(1, 5 if x in "kcpq" else 3)) for x in LOOPS}
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    span_h, span_w = (sizes["r"] - 1) * dilation + 1, (sizes["s"] - 1) * dilation + 1
    rows = min((sizes["p"] - 1) * stride + span_h, sizes["p"] * sizes["r"])
    columns = min((sizes["q"] - 1) * stride + span_w, sizes["q"] * sizes["s"])
    inputs = sizes["g"] * sizes["b"] * sizes["c"] * rows * columns
    nest = Nest(
        *(sizes[x] for x in LOOPS), stride, stride, span_h, span_w, rows, columns,
        inputs, math.prod(sizes[x] for x in WEIGHTS), 0, math.prod(sizes[x] for x in OUTPUTS),
    )  # fmt: skip
    across = {x: draw(whole) for x in draw(st.sets(st.sampled_from(LOOPS), max_size=3))}
    inside = {x: draw(whole) for x in draw(st.sets(st.sampled_from(LOOPS), max_size=3))}
    order = "".join(draw(st.permutations(LOOPS)))[: draw(st.integers(0, len(LOOPS)))]
    room = Room(*(draw(st.sampled_from((1, 4, 1000))) for _ in range(3)))
    return ArrayMapping(across, inside, order), nest, room


@given(mapped())
@settings(max_examples=60, deadline=None)
def test_the_rules_agree_with_loops_that_are_walked(case: tuple[ArrayMapping, Nest, Room]) -> None:
    mapping, nest, room = case
    found, slow = moved_by(mapping, nest, room), walked(mapping, nest, room)
    assert (found is None) == (slow is None)
    if found is None or slow is None:
        return
    assert found.cycles == slow.cycles
    assert (found.weight_words, found.sums_read, found.sums_written) == (
        slow.weight_words, slow.sums_read, slow.sums_written,
    )  # fmt: skip
    assert found.active == slow.active
    if nest.stride_h == 1 and nest.span_h == nest.r and nest.span_w == nest.s:
        assert found.input_words == pytest.approx(slow.input_words)
        assert found.first_words == slow.first_words
    else:  # rows that lie apart are counted as if none were shared, or none skipped
        assert found.input_words >= slow.input_words * (1 - 1e-9)


# --- what is wrong is said


def nothing(nest: Nest, kind: AcceleratorType) -> list[ArrayMapping]:
    return []


def too_wide(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    yield ArrayMapping({"k": 33, "c": 32})


def strange(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    yield ArrayMapping({"rows": 4})


def halves(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    yield ArrayMapping({"k": nest.k / 2})  # type: ignore[dict-item]


def twice(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    yield ArrayMapping({"k": 2}, order="kck")


def fails(nest: Nest, kind: AcceleratorType) -> list[ArrayMapping]:
    return [ArrayMapping({"k": 64 // (nest.c - 1)})]


def endless(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    while True:
        yield ArrayMapping({"k": 2})


def cheats(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    yield ArrayMapping({"k": 2}, idle_cycles=-1e9)


def words(nest: Nest, kind: AcceleratorType) -> list[str]:
    return ["k", "c"]


class Remembers:
    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, nest: Nest, kind: AcceleratorType) -> list[ArrayMapping]:
        self.asked += 1
        return [ArrayMapping({"k": 1 + self.asked % 2})]


@pytest.mark.parametrize(
    ("dataflow", "says"),
    [
        (nothing, "no mapping of any layer fits"),
        (too_wide, "across asks for 1056 multipliers; 'systolic' has 1024"),
        (strange, "across has the loop 'rows'; loops are g, b, k, c, p, q, r, s"),
        (halves, "across k is 16.0; it must be a whole number above 0"),
        (twice, "order is 'kck'; name each of gbkcpqrs at most once"),
        (fails, "for a depthwise kernel on 'systolic': it raises ZeroDivisionError"),
        (endless, "gave more than 10,000 mappings for a layer"),
        (cheats, "idle_cycles is -1000000000.0; it must be finite and not negative"),
        (words, "gave a str; it must give ArrayMapping"),
        (Remembers, "the second answer differs from the first"),
        (3, "dataflow '3' is 3, which cannot be called"),
        ("systolic_weight", "is built in and proposes no mappings"),
        ("nowhere.py:flow", "there is no dataflow file nowhere.py"),
    ],
)
def test_a_breach_is_one_sentence(dataflow: object, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_dataflow(dataflow)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(
        PlatformError, match="unknown dataflow 'output_stationry'; choose one of: row_stationary"
    ):
        shidiannao().with_(dataflow="output_stationry")


def test_a_layer_without_a_mapping_is_left_to_other_types() -> None:
    """None of the kernels fits elements without storage, so only another type runs them."""
    small = shidiannao().with_(pe_psum_bytes=1)
    with pytest.raises(PlatformError, match="no mapping of dataflow '.*' fits its elements"):
        cost_of(LAYERS["a convolution"], small)
    table = build_table([zoo.load("kws-res8")], [small, load_type("simba")], use_cache=False)
    assert (table.latency_s[:, 0] == float("inf")).any() and (table.latency_s[:, 1] < 1).all()


def test_a_breach_is_no_type_that_cannot_run(tmp_path: Path) -> None:
    """A fault in the code stops the run instead of making every layer impossible."""
    path = tmp_path / "mine.py"
    path.write_text("def flow(nest, kind):\n    raise KeyError('k')\n")
    kind = arrays()[0].with_(dataflow=f"{path}:flow")
    with pytest.raises(ConfigError, match="it raises KeyError"):
        build_table([zoo.load("kws-res8")], [kind], use_cache=False)


def test_costs_on_disk_follow_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOMIA_CACHE", str(tmp_path / "cache"))
    code = "from eunomia.hardware.array_mapping import ArrayMapping\n"
    code += "def flow(nest, kind):\n    yield ArrayMapping({'k': WIDE})\n"
    (tmp_path / "mine.toml").write_text(
        (EXAMPLES / "shidiannao.toml").read_text().replace("shidiannao.py:shidiannao", "mine.py:flow")
    )
    found = []
    for wide in (1, 64, 1):
        (tmp_path / "mine.py").write_text(code.replace("WIDE", str(wide)))
        kind = read_type(tmp_path / "mine.toml")
        found.append(build_table([zoo.load("kws-res8")], [kind]).latency_s.sum())
    assert found[0] == found[2] > 2 * found[1]
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 2
