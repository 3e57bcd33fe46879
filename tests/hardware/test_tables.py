"""Cost tables: built once, kept on disk, reloaded without work, read and written as CSV, perturbed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, EunomiaError, PlatformError, TraceError
from eunomia.hardware import build, cache
from eunomia.hardware.build import build_table
from eunomia.hardware.perturb import perturb
from eunomia.hardware.platform import load_platform
from eunomia.hardware.table import CostTable
from eunomia.hardware.table_csv import read_cost_csv, write_cost_csv
from eunomia.hardware.types import cost_of, load_type
from eunomia.workload.model import DnnModel, Layer
from tests import children


def network(name: str = "net", layers: int = 4) -> DnnModel:
    """Convolutions of which the first two are alike."""
    sizes = [32, 32, 48, 64, 80, 96][:layers]
    return DnnModel.chain(
        name,
        [Layer(f"conv{i}", "conv", in_channels=32, out_channels=k, in_h=14, in_w=14, out_h=14, out_w=14, kernel_h=3,
               kernel_w=3, weight_elements=k * 32 * 9) for i, k in enumerate(sizes)],
    )  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EUNOMIA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def same(a: CostTable, b: CostTable) -> bool:
    names = ("compute_s", "buffer_s", "dram_bytes", "energy_j", "link_bytes_s")
    return a.types == b.types and all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


def test_entries_are_those_of_the_model() -> None:
    model, platform = network(), load_platform("simba3-eyeriss3")
    table = build_table([model, network("other", 2)], platform)
    assert table.types == ("simba", "eyeriss")
    assert table.latency_s.shape == (6, 2)
    cost = cost_of(model.layers[3], load_type("eyeriss"))
    assert table.compute_s[3, 1] == cost.compute_s
    assert table.energy_j[3, 1] == cost.energy_j
    assert table.latency_s[3, 1] == cost.latency_s
    assert all(origin.startswith("model (") for origin in table.origin)
    assert build_table([model], [load_type("t4")]).origin[0].startswith("estimated (")


def test_equal_layers_are_costed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(build, "cost_of", lambda layer, kind: asked.append(layer) or cost_of(layer, kind))
    build_table([network(), network("twin")], [load_type("simba")])
    assert len(asked) == 3


def test_reload_without_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = load_platform("simba3-eyeriss3")
    first = build_table([network()], platform)
    monkeypatch.setattr(build, "cost_of", lambda *_: pytest.fail("computed again"))
    assert same(build_table([network("renamed")], platform), first)


def test_a_changed_type_is_computed_again() -> None:
    simba = load_type("simba")
    slow = simba.with_(clock_hz=5e8)  # type: ignore[union-attr]
    one, two = (build_table([network()], [kind]) for kind in (simba, slow))
    assert np.allclose(two.compute_s, 2 * one.compute_s)


@pytest.mark.parametrize("damage", ["", "{", "[]", "half", "checksum", "negative", "short"])
def test_a_damaged_entry_is_ignored_and_rebuilt(own_cache: Path, damage: str) -> None:
    first = build_table([network()], [load_type("simba")])
    (path,) = (own_cache / "costs").glob("*.json")
    good = path.read_text()
    entry = json.loads(good)
    if damage == "checksum":
        entry["columns"]["compute_s"][0] *= 2
    elif damage in ("negative", "short"):
        values = entry["columns"]["compute_s"]
        entry["columns"]["compute_s"] = [-v for v in values] if damage == "negative" else values[:-1]
        entry["checksum"] = cache._checksum(entry["columns"])
    texts = {"half": good[: len(good) // 2], "": "", "{": "{", "[]": "[]"}
    path.write_text(texts.get(damage, json.dumps(entry)))
    assert same(build_table([network()], [load_type("simba")]), first)
    assert path.read_text() == good


def test_a_folder_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EUNOMIA_CACHE", str(tmp_path / "file"))
    assert build_table([network()], [load_type("simba")]).latency_s.shape == (4, 1)


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EUNOMIA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_dir() == tmp_path / "eunomia"


BUILD = """
from eunomia.hardware.build import build_table
from eunomia.hardware.platform import load_platform
from tests.hardware.test_tables import network
print(build_table([network()], load_platform("simba3-eyeriss3")).latency_s.tolist())
"""


def test_several_processes_share_the_folder(own_cache: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(
            pool.map(lambda _: children.run(children.python("-c", BUILD), check=True).stdout, range(6))
        )
    assert found[0] and all(rows == found[0] for rows in found)
    assert all(
        path.suffix == ".json" for path in (own_cache / "costs").iterdir()
    )  # nothing half-written stays


def test_no_models_no_types() -> None:
    with pytest.raises(PlatformError, match="at least one network"):
        build_table([], [load_type("simba")])
    with pytest.raises(PlatformError, match="at least one accelerator type"):
        build_table([network()], [])


def test_no_type_can_run_a_layer() -> None:
    tiny = load_type("simba").with_(buffer_bytes=64)  # type: ignore[union-attr]
    with pytest.raises(PlatformError, match="no accelerator of simba can run layer 'conv0' of model 'net'"):
        build_table([network()], [tiny])


# Contention (section 8.6)


@given(share=st.floats(1e6, 1e12))
def test_table_at_a_share_equals_direct_evaluation(share: float) -> None:
    kinds = [load_type(n) for n in ("simba", "eyeriss", "t4")]
    model = network()
    table = build_table([model], kinds, use_cache=False)
    direct = [[cost_of(layer, kind).latency_at(share) for kind in kinds] for layer in model.layers]
    assert np.array_equal(table.latency_at(share), np.array(direct))


# Perturbation (section 9)


def test_perturbation_is_independent_bounded_and_exact() -> None:
    table = build_table([network(layers=6)], load_platform("simba3-eyeriss3"))
    wrong = perturb(table, 0.5, np.random.default_rng(1))
    ratio = wrong.latency_s / table.latency_s
    assert ((ratio >= 0.5) & (ratio <= 1.5)).all()
    assert len(np.unique(ratio.round(12))) == ratio.size
    assert np.allclose(wrong.demand_bytes_s, table.demand_bytes_s)
    assert same(perturb(table, 0.0, np.random.default_rng(1)), table)
    assert same(perturb(table, 0.5, np.random.default_rng(1)), wrong)
    with pytest.raises(ConfigError, match="1.5"):
        perturb(table, 1.5, np.random.default_rng(1))


# CSV


def test_csv_round_trip_is_exact(tmp_path: Path) -> None:
    model = network()
    table = build_table([model], load_platform("simba3-eyeriss3"))
    write_cost_csv(table, tmp_path / "costs.csv")
    again = read_cost_csv(tmp_path / "costs.csv", [model])
    assert same(again, table)
    assert again.origin == table.origin


def test_measured_latencies_alone_will_do(tmp_path: Path) -> None:
    text = "model,layer,type,latency_s,dram_bytes\n" + "".join(
        f"net,conv{i},npu,{i + 1}e-3,1000\nnet,{i},gpu,{'inf' if i == 0 else '1e-3'},0\nelse,x,npu,1,1\n"
        for i in range(4)
    )
    (tmp_path / "m.csv").write_text(text)
    table = read_cost_csv(tmp_path / "m.csv", [network()])
    assert table.types == ("npu", "gpu")
    assert table.latency_s[:, 0].tolist() == [1e-3, 2e-3, 3e-3, 4e-3]
    assert np.isinf(table.latency_s[0, 1])
    assert table.origin == ("measured", "measured")


HEAD = "model,layer,type,compute_s,dram_bytes\n"
ROWS = [f"net,conv{i},npu,1e-3,10\n" for i in range(4)]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("model,layer,compute_s\n", TraceError, "line 1, column 'type': the column 'type' is missing"),
        ("model,layer,type\n", TraceError, "compute_s or latency_s"),
        (HEAD.replace("dram_bytes", "dram_byte"), TraceError, "column 'dram_byte': unknown column"),
        (HEAD, TraceError, "holds no rows"),
        (
            HEAD + ROWS[0].replace("1e-3", "fast"),
            TraceError,
            "line 2, column 'compute_s': 'fast' is not a number",
        ),
        (HEAD + ROWS[0].replace("1e-3", "-1"), TraceError, "line 2, column 'compute_s'"),
        (HEAD + ROWS[0] + ROWS[1].replace(",10", ",nan"), TraceError, "line 3, column 'dram_bytes'"),
        (
            HEAD + ROWS[0].replace("1e-3,10", "0,0") + "".join(ROWS[1:]),
            PlatformError,
            "line 2, column 'compute_s'.* takes 0 s",
        ),
        (
            HEAD + ROWS[0].replace("1e-3", "0") + "".join(ROWS[1:]),
            PlatformError,
            "line 2, column 'compute_s'.* takes 0 s .*bytes take no time without link_bytes_s",
        ),
        (HEAD + ROWS[0] + ROWS[1].replace("1e-3", ""), TraceError, "line 3, column 'compute_s': no time for"),
        (HEAD + ROWS[0] + "net,conv1,npu\n", TraceError, "line 3, column 'compute_s': no time for"),
        (HEAD + "".join(ROWS[:3]), PlatformError, "no time for layer 'conv3' of model 'net' on 'npu'"),
        (HEAD + "".join(ROWS) + ROWS[0], TraceError, "line 6, column 'layer': .*given twice"),
        (
            HEAD + ROWS[0].replace("conv0", "conv9"),
            TraceError,
            "line 2, column 'layer': model 'net' has no layer",
        ),
        (
            HEAD + "".join(row.replace("1e-3", "inf") for row in ROWS),
            PlatformError,
            "no accelerator of npu can run",
        ),
    ],
)
def test_wrong_csv_files(tmp_path: Path, text: str, error: type[EunomiaError], message: str) -> None:
    (tmp_path / "costs.csv").write_text(text)
    with pytest.raises(error, match=message) as caught:
        read_cost_csv(tmp_path / "costs.csv", [network()])
    assert "\n" not in str(caught.value)


def test_a_missing_csv_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none.csv"):
        read_cost_csv(tmp_path / "none.csv", [network()])
