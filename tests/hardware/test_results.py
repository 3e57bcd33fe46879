"""Result files of other cost models: figures as they stand in the file, and one sentence for a wrong one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from eunomia.core.errors import ConfigError, EunomiaError, TraceError
from eunomia.hardware.imported import Import, cost_rows
from eunomia.hardware.results import FORMATS
from eunomia.hardware.results.figures import LayerFigures
from eunomia.hardware.table_csv import read_entries
from eunomia.workload.model import DnnModel, Layer

SCALE_SIM = """LayerID, Total Cycles (incl. prefetch), Total Cycles, Stall Cycles, Overall Util %,
0, 1200.0, 1000.0, 10.0, 50.0,
1, 2200, 2000, 0, 50.0,
"""
ACCESSES = """LayerID, SRAM IFMAP Start Cycle, DRAM IFMAP Reads, DRAM Filter Reads, DRAM OFMAP Writes,
0, 0, 100.0, 20.0, 3.0,
1, 0, 200.0, 40.0, 6.0,
"""
MAESTRO = """Model Name, Layer Number, NumPEs, Runtime (Cycles), Activity count-based Energy (nJ)
net, conv2, 256, 900, 4000
net, conv1, 256, 450, 2000
"""
TIMELOOP = """Level 1
-------
=== o_buffer ===
    Inputs:
        Utilized instances (max)                 : 4
        Scalar reads (per-instance)              : 999
        Scalar updates (per-instance)            : 999
Level 2
-------
=== DRAM ===
    Weights:
        Utilized instances (max)                 : 1
        Scalar reads (per-instance)              : 864
        Scalar updates (per-instance)            : 0
        Scalar fills (per-instance)              : 7
    Outputs:
        Utilized instances (max)                 : 2
        Scalar reads (per-instance)              : 10
        Scalar updates (per-instance)            : 90
Networks
Summary Stats
-------------
GFLOPs (@1GHz): 2042.67
Utilization: 75.00%
Cycles: 86016
Energy: 649.28 uJ
"""
ZIGZAG = {
    "outputs": {
        "energy": {"energy_total": 5e6},
        "latency": {"data_onloading": 11.0, "computation": 600.0, "data_offloading": 4},
    },
    "inputs": {"layer": {"name": "conv1"}},
}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def network() -> DnnModel:
    def conv(name: str) -> Layer:
        return Layer(name, "conv", in_channels=3, out_channels=8, in_h=32, in_w=32, out_h=32, out_w=32)

    return DnnModel.chain("net", [conv("conv1"), Layer("add", "elementwise", in_w=8192), conv("conv2")])


def test_scale_sim(tmp_path: Path) -> None:
    path = written(tmp_path, "COMPUTE_REPORT.csv", SCALE_SIM)
    assert FORMATS["scale-sim"](path) == [LayerFigures("", 1200.0), LayerFigures("", 2200.0)]
    written(tmp_path, "DETAILED_ACCESS_REPORT.csv", ACCESSES)
    assert [found.dram_words for found in FORMATS["scale-sim"](path)] == [123.0, 246.0]
    older = written(
        tmp_path / "old", "COMPUTE_REPORT.csv", SCALE_SIM.replace(" Total Cycles (incl. prefetch),", " x,")
    )
    assert [found.cycles for found in FORMATS["scale-sim"](older)] == [1000.0, 2000.0]


def test_maestro(tmp_path: Path) -> None:
    found = FORMATS["maestro"](written(tmp_path, "net.csv", MAESTRO))
    assert [(one.name, one.cycles, one.dram_words) for one in found] == [
        ("conv2", 900.0, None),
        ("conv1", 450.0, None),
    ]
    assert [one.energy_j for one in found] == pytest.approx([4e-6, 2e-6])


def test_timeloop(tmp_path: Path) -> None:
    (found,) = FORMATS["timeloop"](written(tmp_path / "conv1", "timeloop-mapper.stats.txt", TIMELOOP))
    assert (found.name, found.cycles, found.dram_words) == ("conv1", 86016.0, 864.0 + 2 * 100.0)
    assert found.energy_j == pytest.approx(649.28e-6)
    (found,) = FORMATS["timeloop"](written(tmp_path, "conv2.stats.txt", TIMELOOP.replace("DRAM", "main")))
    assert (found.name, found.dram_words) == ("conv2", 1064.0), "the outermost of two levels"
    alone = TIMELOOP[: TIMELOOP.index("Level 1")] + TIMELOOP[TIMELOOP.index("Level 2") :].replace(
        "DRAM", "main"
    )
    (found,) = FORMATS["timeloop"](written(tmp_path, "conv3.stats.txt", alone))
    assert found.dram_words is None, "a single level feeds the array"
    middle = TIMELOOP.replace("=== o_buffer ===", "=== store ===\n        Technology   : DRAM")
    (found,) = FORMATS["timeloop"](
        written(tmp_path, "conv4.stats.txt", middle.replace("=== DRAM", "=== rest"))
    )
    assert found.dram_words == 2 * 4 * 999.0


def test_a_file_of_timeloop_from_windows(tmp_path: Path) -> None:
    path = tmp_path / "conv1.stats.txt"
    path.write_bytes((TIMELOOP + OPERATIONS).replace("\n", "\r\n").encode())
    (found,) = FORMATS["timeloop"](path)
    assert (
        found == FORMATS["timeloop"](written(tmp_path / "unix", "conv1.stats.txt", TIMELOOP + OPERATIONS))[0]
    )
    assert (found.cycles, found.dram_words, found.energy_j) == (
        86016.0,
        1064.0,
        pytest.approx(64 * 7190.35e-15),
    )


def test_a_number_of_timeloop_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    for text, place in (
        (TIMELOOP.replace("649.28", "649.2.8"), "column 'Energy': '649.2.8' is not a number"),
        (
            TIMELOOP + OPERATIONS.replace("7190.35", "7190.35.1"),
            "column 'Energy': '7190.35.1' is not a number",
        ),
        (TIMELOOP.replace(": 864", ": 8.6.4"), "column 'DRAM': '8.6.4' is not a number"),
        (
            TIMELOOP.replace("(max)                 : 2", "(max) : 2..0"),
            "column 'DRAM': '2..0' is not a number",
        ),
    ):
        with pytest.raises(TraceError, match=place):
            FORMATS["timeloop"](written(tmp_path, "conv1.stats.txt", text))


@pytest.mark.parametrize(
    ("technology", "words"), [("SRAM", None), ("sram", None), ("HBM", 1064.0), ("", 1064.0)]
)
def test_an_outermost_level_on_the_chip_is_no_main_memory(
    technology: str, words: float | None, tmp_path: Path
) -> None:
    text = TIMELOOP.replace("=== DRAM ===", f"=== top ===\n        Technology           : {technology}")
    (found,) = FORMATS["timeloop"](written(tmp_path, "conv1.stats.txt", text))
    assert found.dram_words == words


OPERATIONS = """
Algorithmic Computes = 512
fJ/Algorithmic-Compute
    mac                        = 39.38
    Total                      = 898.79

Actual Computes = 64
fJ/Compute
    mac                        = 315.00
    Total                      = 7190.35
"""


@pytest.mark.parametrize(
    ("text", "joules"),
    [
        (TIMELOOP.replace("649.28", "0.00"), None),
        (TIMELOOP.replace("649.28", "0.00") + OPERATIONS, 64 * 7190.35e-15),
        (TIMELOOP.replace("Summary", "Engine").replace("649.28", "0.00")
         + "\nMACCs = 48\npJ/MACC\n    MACC   = 0.60\n    Total   = 7.45\n", 48 * 7.45e-12),
    ],
    ids=["rounded to nothing", "sparse", "before 2020"],
)  # fmt: skip
def test_small_layers_of_timeloop_keep_their_energy(text: str, joules: float | None, tmp_path: Path) -> None:
    """Of 186 files in its authors' repository 76 print 0.00 uJ, or have the older heading."""
    (found,) = FORMATS["timeloop"](written(tmp_path, "conv1.stats.txt", text))
    assert found.energy_j == (None if joules is None else pytest.approx(joules))
    assert found.cycles == 86016.0


def test_the_first_version_of_scale_sim(tmp_path: Path) -> None:
    file = written(tmp_path, "net_cycles.csv", "Layer,\tCycles,\t% Utilization,\nConv1,\t126,\t83.2,\n")
    assert FORMATS["scale-sim"](file) == [LayerFigures("Conv1", 126.0)]
    heading = "Layer,\tDRAM_IFMAP_start,\tDRAM_IFMAP_bytes,\tDRAM_Filter_bytes,\tDRAM_OFMAP_bytes,\n"
    written(tmp_path, "net_detail.csv", heading + "Conv1,\t-5,\t100,\t20,\t0,\n")
    assert FORMATS["scale-sim"](file) == [LayerFigures("Conv1", 126.0, None, 120.0)]


def test_reports_that_were_renamed_stay_together(tmp_path: Path) -> None:
    file = written(tmp_path, "COMPUTE_REPORT_is.csv", SCALE_SIM)
    written(tmp_path, "DETAILED_ACCESS_REPORT_is.csv", ACCESSES)
    assert [found.dram_words for found in FORMATS["scale-sim"](file)] == [123.0, 246.0]


def test_two_runs_of_maestro_in_one_file(tmp_path: Path) -> None:
    again = MAESTRO + "".join(MAESTRO.splitlines(keepends=True)[1:])
    with pytest.raises(TraceError, match="holds 2 layers more than once, as MAESTRO appends"):
        FORMATS["maestro"](written(tmp_path, "res.csv", again))
    for text, layers in ((again + again.partition("\n")[2], 2), (MAESTRO.partition("net, conv1")[0], 1)):
        text = text if layers == 2 else text + text.splitlines()[1] + "\n"
        with pytest.raises(TraceError, match=f"holds {layers} layers? more than once, as MAESTRO appends"):
            FORMATS["maestro"](written(tmp_path, "res.csv", text))
    other = MAESTRO.replace(
        "conv1", "conv2"
    )  # a layer twice that others do not follow: the next run has other layers
    with pytest.raises(TraceError, match="holds 1 layer more than once"):
        FORMATS["maestro"](written(tmp_path, "res.csv", other))
    unnamed = "\n".join(line.replace(" conv1,", ",").replace(" conv2,", ",") for line in MAESTRO.splitlines())
    assert len(FORMATS["maestro"](written(tmp_path, "res.csv", unnamed))) == 2


def test_zigzag(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", json.dumps([ZIGZAG, {**ZIGZAG, "inputs": {}}]))
    found = FORMATS["zigzag"](path)
    assert [(one.name, one.cycles) for one in found] == [("conv1", 615.0), ("a", 615.0)]
    assert found[0].energy_j == pytest.approx(5e-6)


# What stream-dse 1.13.14 wrote for its own first example, two convolutions on four cores; only `reuse` is left out
STEADY = json.loads((Path(__file__).parent / "data" / "stream_steady_state_trace.json").read_text())
SCME = [  # as its convert_scme_to_perfetto_json writes it: every part of every layer
    {"name": "thread_name", "ph": "M", "pid": "scme", "tid": 0, "args": {"name": "Core 0"}, "cname": "blue"},
    *(
        {
            "name": f"Conv {n} (Id: {n}, Sub_id: {sub})",
            "cat": "compute",
            "ph": "X",
            "ts": 0,
            "dur": dur,
            "tid": tid,
        }
        for n, sub, dur, tid in ((0, 0, 100, 0), (0, 1, 120, 0), (0, 2, 90, 1), (4, 0, 30, 1))
    ),
    {"name": "Transfer ({'t': 9})", "cat": "transfer", "ph": "X", "ts": 0, "dur": 999, "tid": 3},
]


def test_stream(tmp_path: Path) -> None:
    """Slots go to the layer that computes, is fed or is emptied; parts are summed, the busiest core decides."""
    steady = FORMATS["stream"](written(tmp_path, "steady_state_trace.json", json.dumps(STEADY)))
    assert [found.name for found in steady] == ["Conv1", "Conv2"]
    assert [found.cycles for found in steady] == [1024 + 144 + 2376, 2048 + 4656 + 4096]
    assert sum(found.cycles for found in steady) == 14344  # the total latency that Stream's documents state
    twice = {**STEADY, "otherData": {**STEADY["otherData"], "total_latency_cycles": 2 * 14344}}
    longer = FORMATS["stream"](written(tmp_path, "steady_state_trace.json", json.dumps(twice)))
    assert [found.cycles for found in longer] == [2 * found.cycles for found in steady]
    whole = FORMATS["stream"](written(tmp_path, "scme.json", json.dumps(SCME)))
    assert whole == [LayerFigures("Conv 0", 220.0), LayerFigures("Conv 4", 30.0)]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"traceEvents": STEADY["traceEvents"]}, "column 'total_latency_cycles': 'None' is not a number"),
        ({**STEADY, "traceEvents": []}, "holds no computation of Stream"),
        ([{**SCME[1], "dur": -3}], "-3 is not a positive number"),
    ],
)
def test_a_trace_that_lacks_something_is_one_sentence(found: object, says: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=says):
        FORMATS["stream"](written(tmp_path, "trace.json", json.dumps(found)))


def test_pickles_are_refused_unread(tmp_path: Path) -> None:
    """A pickle that would write a file when it is loaded."""
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return mark.write_text, ("",)

    path = tmp_path / "core_cost_lut.pickle"
    path.write_bytes(pickle.dumps(Bomb()))
    for tool in FORMATS:
        with pytest.raises(TraceError):
            FORMATS[tool](path)
    with pytest.raises(TraceError, match="is a pickle, which could run code; give the JSON of Stream"):
        FORMATS["stream"](path)
    assert not mark.exists()


@pytest.mark.parametrize("tool", FORMATS)
@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "{}", "[]", '{"outputs": {"latency": {}}}', "Summary Stats\n"]
)
def test_a_wrong_file_is_one_sentence_with_its_name(tool: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="wrong.csv") as caught:
        FORMATS[tool](written(tmp_path, "wrong.csv", text))
    assert "\n" not in str(caught.value)
    with pytest.raises(TraceError, match="cannot be read"):
        FORMATS[tool](tmp_path / "absent.csv")


def test_a_number_that_is_none_is_named_with_its_place(tmp_path: Path) -> None:
    for wrong, message in (("fast", "'fast' is not a number"), ("0", "0 is not a positive number")):
        path = written(tmp_path, "COMPUTE_REPORT.csv", SCALE_SIM.replace("2200", wrong))
        with pytest.raises(TraceError, match=f"line 3, column 'Total Cycles .incl. prefetch.': {message}"):
            FORMATS["scale-sim"](path)


HOW = Import("npu", "scale-sim", clock_mhz=500.0, word_bytes=2.0, link_gb_s=8.0)


def test_rows_are_costs_that_a_platform_takes(tmp_path: Path) -> None:
    figures = [LayerFigures("", 1000.0, 1e-6, 50.0), LayerFigures("", 2000.0)]
    text = cost_rows(figures, network(), [], HOW)
    found = read_entries(written(tmp_path, "costs.csv", text), [network()])
    assert (
        found.types == ("npu",)
        and found.origin == ("imported (scale-sim)",)
        and found.link_bytes_s.tolist() == [8e9]
    )
    assert found.compute_s[[0, 2], 0].tolist() == [2e-6, 4e-6] and np.isnan(found.compute_s[1, 0])
    every_tensor_once = 2.0 * (3 * 32 * 32 + 8 * 32 * 32)
    assert found.dram_bytes[[0, 2], 0].tolist() == [100.0, every_tensor_once]
    assert found.energy_j[:, 0].tolist() == [1e-6, 0.0, 0.0]


def test_layers_go_by_name_by_order_or_as_told() -> None:
    def rows(names: list[str], told: list[str]) -> list[str]:
        text = cost_rows([LayerFigures(name, 1.0) for name in names], network(), told, HOW)
        return [line.split(",")[1] for line in text.splitlines()[1:]]

    assert rows(["conv2", "conv1"], []) == ["2", "0"]
    assert rows(["Layer1", "Layer2"], []) == ["0", "2"]
    assert rows(["x"], ["conv2"]) == ["2"] and rows(["x"], ["1"]) == ["1"]


@pytest.mark.parametrize(
    ("count", "told", "message"),
    [
        (1, [], "the results have 1 layers, net has 2 with MACs; name the layers in order with --layers"),
        (2, ["conv1"], "1 layers are named, but the results have 2"),
        (1, ["conv9"], "'conv9' is no layer of net; eunomia models net lists them"),
        (2, ["conv1", "conv1"], "a layer is named twice"),
    ],
)
def test_layers_that_do_not_fit_are_one_sentence(count: int, told: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        cost_rows([LayerFigures("", 1.0)] * count, network(), told, HOW)
    assert isinstance(caught.value, EunomiaError) and "\n" not in str(caught.value)
