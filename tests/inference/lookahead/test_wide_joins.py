"""A lookahead beside networks whose layers join many branches: its memory holds what it says that it holds."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.inference.kernel.layout import WAITING
from eunomia.inference.kernel.setup import GRACE_S, STEP, width
from eunomia.inference.lookahead.companion import KNOWN
from eunomia.inference.lookahead.policy import lookahead
from eunomia.inference.lookahead.values import candidate_values
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import Engine
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests import children
from tests.inference.graphs import chain, dense, fan, open_fan
from tests.inference.strategies import Case, ToyPlatform, cases, layers, toy_table
from tests.workload.onnx_graphs import graph, node, weights

OPTIONS = EngineOptions(late="drop")
LANES = 8
SCENARIO = """
name = "dense"
duration_s = 0.08
[platform]
accelerators = [{ type = "simba", count = 4 }, { type = "eyeriss", count = 4 }]
dram_bandwidth_gb_s = 24.0
"""
TENANT = """
[[tenant]]
name = "tenant-%d"
models = [{ onnx = "dense.onnx", name = "dense", deadline_factor = %d.0 }]
arrivals = { process = "poisson", rate_per_s = 1700.0 }
"""  # three of them: 1.3 times what the platform can serve, some 400 requests


def densenet(blocks: tuple[int, ...], growth: int = 8) -> onnx.ModelProto:
    """The shape of DenseNet-121, with few channels: blocks in which each layer joins all earlier ones."""
    made, stored = [node("Conv", ["x", "w"], ["stem"], pads=[1] * 4)], [weights("w", growth, 3, 3, 3)]
    last, channels = "stem", growth
    for block, units in enumerate(blocks):
        joined = [last]
        for unit in range(units + 1):
            join, out = f"join{block}-{unit}", f"conv{block}-{unit}"
            wide = channels + growth * (len(joined) - 1)
            after, side = (growth, 3) if unit < units else (wide // 2, 1)
            made += [
                node("Concat", joined, [join], axis=1),
                node("Conv", [join, f"w-{out}"], [out], pads=[side // 2] * 4),
            ]
            stored.append(weights(f"w-{out}", after, wide, side, side))
            joined = [*joined, out]
            last, ahead = out, after
        channels = ahead
    return graph(made, {"x": [1, 3, 32, 32]}, stored, [last])


def run_child(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own: one that writes over its memory is stopped, and the tests must go on."""
    return children.run(children.python(*arguments), cwd=folder)


def test_a_densenet_from_onnx_under_overload(tmp_path: Path) -> None:
    onnx.save(densenet((6, 12, 24)), tmp_path / "dense.onnx")
    text = SCENARIO + "".join(TENANT % (n, factor) for n, factor in enumerate((6, 9, 12)))
    (tmp_path / "dense.toml").write_text(text)
    child = run_child(
        ["-m", "eunomia", "run", "dense.toml", "--policy", "lookahead(base=edf_bytes+f+g1.0)"], tmp_path
    )
    assert child.returncode == 0, child.stderr
    assert "requests measured" in child.stdout


MODEL = """
from eunomia.inference.simulate import simulate_problem
from tests.inference.graphs import dense
from tests.inference.lookahead.test_wide_joins import OPTIONS, crowd
problem = crowd(dense("dense", (6, 12, 24)), 60)
for futures in 0, 2:
    outcome = simulate_problem(problem, f"lookahead(base=edf_bytes+f,futures={futures})", OPTIONS)
    assert (outcome.results["outcome"] == 0).all()
"""


def test_a_dense_model_of_the_package(tmp_path: Path) -> None:
    child = run_child(["-c", MODEL], tmp_path)
    assert child.returncode == 0, child.stderr


def crowd(net: DnnModel, count: int, lanes: int = LANES) -> Problem:
    """``count`` requests at once, with time enough for all."""
    rows = len(net.layers)
    table = toy_table([net], ("type0",), np.ones((rows, 1)))
    due = np.full(count, 10.0 * rows * count)
    requests = RequestTable(
        (Agreement("tenant", net.name, None),), np.zeros(count, np.int64), np.zeros(count), due
    )
    platform = ToyPlatform(("type0",), np.zeros(lanes, np.int64))
    return build_problem(requests, table, platform, OPTIONS)


def asked(problem: Problem, options: EngineOptions = OPTIONS) -> tuple[Engine, bool]:
    """An engine with a lookahead beside it, and whether it waits for an answer."""
    policy = lookahead(base="edf+f", portfolio="none")
    engine = Engine(problem, policy.rules._replace(mode=STEP), options)
    engine.companion = policy.attach(engine)
    return engine, engine.advance()


NETS = (dense("dense", (6, 24)), fan("fan", 40), open_fan("open", 30), chain("single", 1), chain("chain", 9))


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_a_snapshot_holds_as_many_requests_whatever_their_shape(net: DnnModel) -> None:
    engine, _ = asked(crowd(net, KNOWN + 30))
    assert len(candidate_values(engine.companion).request) == KNOWN


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_what_runs_is_in_the_snapshot_though_that_is_full(net: DnnModel) -> None:
    # More accelerators than a snapshot takes in requests: each but the last runs a request of its own.
    lanes = KNOWN + 4
    engine, waits = asked(crowd(net, lanes, lanes))
    view = engine.view()
    first = np.unique(view.ready["request"], return_index=True)[1][: lanes - 1]
    waits = engine.advance(engine.answer(view, [view.assign(int(i), s) for s, i in enumerate(first)]))
    assert waits
    candidate_values(engine.companion)
    assert_whole(engine)
    snapshot = engine.companion.states[0]
    assert snapshot.k["used_slots"] == lanes - 1
    running = snapshot["lanes"]["node"][: lanes - 1]
    assert snapshot["slots"]["request"][snapshot["nodes"]["slot"][running]].tolist() == list(range(lanes - 1))


def assert_whole(engine: Engine) -> None:
    """What the snapshot holds of a request is all of it, and nothing waits of one that is too late."""
    live, copy, now_s = engine.state, engine.companion.states[0], engine.now_s
    theirs, mine = waiting(live), waiting(copy)
    late = {request for (request, _), facts in theirs.items()
            if facts["deadline_s"] + GRACE_S < now_s + facts["path_best_s"]}  # fmt: skip
    slots = copy["slots"][: int(copy.k["used_slots"])]
    held = set(slots["request"][slots["gone"] == 0].tolist())
    assert not held & late
    assert set(mine) == {place for place in theirs if place[0] in held}
    assert len(set(slots["request"].tolist())) == len(slots)


def waiting(state: Any) -> dict[tuple[int, int], Any]:
    """Facts of what waits, by (request, layer)."""
    nodes = state["waiting"]["value"][: int(state.k["num_waiting"])]
    assert (state["nodes"]["state"][nodes] == WAITING).all()
    facts = state["ready"][nodes]
    assert (state["slots"]["request"][state["nodes"]["slot"][nodes]] == facts["request"]).all()
    return {(int(row["request"]), int(row["layer"])): row for row in facts}


@settings(max_examples=60)
@given(cases(periodic=False), st.integers(0, 3))
def test_requests_enter_a_snapshot_whole_or_not_at_all(case: Case, turn: int) -> None:
    engine, waits = asked(case.problem(), case.options)
    while waits:
        view = engine.view()
        candidate_values(engine.companion)
        assert_whole(engine)
        able = [(i, int(s)) for i in range(len(view)) for s in view.idle if np.isfinite(view.latency_s[i, s])]
        start = [able[(turn + int(view.system["starts"])) % len(able)]] if able else []
        waits = engine.advance(engine.answer(view, [view.assign(i, s) for i, s in start]))


@given(st.integers(1, 7), st.data())
def test_no_more_layers_than_the_width_are_ready_at_once(count: int, data: st.DataObject) -> None:
    pairs = list(itertools.combinations(range(count), 2))
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    net = DnnModel("net", layers(count), tuple(edges))
    before = [{a for a, b in edges if b == layer} for layer in range(count)]
    widest = 0
    for some in itertools.product((False, True), repeat=count):
        done = {layer for layer in range(count) if some[layer]}
        if all(before[layer] <= done for layer in done):
            widest = max(widest, sum(before[layer] <= done and layer not in done for layer in range(count)))
    assert widest <= width(crowd(net, 1)) <= count
