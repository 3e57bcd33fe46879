"""Bad input: one clear sentence, a non-zero status, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import onnx.helper
import pytest

from eunomia.workload import zoo
from tests.cli.scenarios import small
from tests.cli.shell import Done, Shell


def refused(done: Done, *words: str) -> None:
    """The command failed, said these words on stderr, and no traceback."""
    assert done.code not in (0, None), done.out
    text = " ".join(done.err.split())
    assert "Traceback" not in text and text.startswith("eunomia: "), text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("tenant.gold.wieght=2", ["tenant.gold", "unknown key 'wieght'", "did you mean 'weight'"]),
        (
            "tenant.gold.models.0.model=squeezenett",
            [
                "small.toml: tenant.gold.models.0.model: unknown model 'squeezenett'",
                "did you mean 'squeezenet'",
            ],
        ),
        (
            "compare.policies=['edff']",
            ["'small lab': compare.policies: unknown policy 'edff'", "did you mean 'edf'"],
        ),
        ("policy=edff", ["'small lab': policy: unknown policy 'edff'", "did you mean 'edf'"]),
        ("load=80", ["small.toml: load is 80 times the capacity", "write 0.8 for 80 %"]),
        ("platform={preset='npu-mx'}", ["small.toml: platform: preset: unknown platform", "'npu-mix'"]),
        ("platform.accelerators.0.type=own.toml", ["accelerators.0.type", "write file = 'own.toml'"]),
        ("policy=edf+eft+pref", ["'edf+eft+pref' has two placements, eft and pref"]),
        ("policy=edf+g-1", ["'edf+g-1'", "a gate is a positive number"]),
        ("policy=edf+feft", ["unknown", "feft", "did you mean 'eft'"]),
        (
            "platform.accelerators.0.type=simbaa",
            ["small.toml: platform: accelerators.0.type", "'simbaa'", "'simba'"],
        ),
        ("tenant.bulk.models.0.deadline_ms=-1", ["tenant.bulk.models.0.deadline_ms is -1", "greater than 0"]),
        ("tenant.bulk.arrivals.period_s=-0.1", ["tenant.bulk.arrivals.period_s is -0.1"]),
        ("duration_s=-1", ["duration_s is -1"]),
        ("platform.dram_bandwidth_gb_s=0", ["platform.dram_bandwidth_gb_s is 0"]),
        (
            "tenant.gold.models.0={onnx='no.onnx'}",
            ["'small lab': tenant.gold.models.0", "no.onnx", "path of an ONNX file"],
        ),
        (
            "tenant.gold.arrivals={trace='azure-llm', path='no.csv'}",
            ["tenant.gold.arrivals: there is no trace at", "AzurePublicDataset", "--set"],
        ),
        (
            "tenant.gold.arrivals={trace='azure', path='no.csv'}",
            ["small.toml: tenant.gold.arrivals", "unknown trace format 'azure'", "azure-llm"],
        ),
        ("tenant.gold.model_set=moca-lite", ["either models"]),
        ("tenant.gold.models.0={model='vgg16', deadline='qos_h'}", ["'vgg16'", "no base deadline"]),
        ("engine.period_s=1e-9", ["engine.period_s is 1e-09", "4e+08 periods", "raise period_s"]),
        ("nonsense", ["--set nonsense", "KEY=VALUE"]),
        ("tenant.silver.weight=1", ["no entry 'silver'", "gold, bulk"]),
    ],
)
def test_wrong_values_are_said_in_one_sentence(shell: Shell, override: str, words: list[str]) -> None:
    path = small(Path.cwd())
    verb = "compare" if override.startswith("compare.") else "run"  # only that reads the list
    refused(shell(verb, path, "--set", override), *words)
    assert not Path("runs").exists() or not any(Path("runs").rglob("*.parquet"))


def test_a_run_without_requests_is_refused(shell: Shell) -> None:
    rare = "tenant.bulk.arrivals={process='poisson', rate_per_s=0.001}"
    refused(shell("run", small(Path.cwd()), "--set", rare, "--set", "duration_s=1e-9"), "no request arrives")


@pytest.mark.parametrize("content", ["nonsense", "\x00\x01", "", "[1, 2]"])
def test_malformed_onnx_is_named(shell: Shell, content: str) -> None:
    Path("net.onnx").write_text(content)
    refused(shell("models", "net.onnx"), "net.onnx")
    override = "tenant.gold.models.0={onnx='net.onnx', deadline_ms=5.0}"
    refused(shell("run", small(Path.cwd()), "--set", override), "net.onnx")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("", ["trace.csv"]),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", ["trace.csv"]),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,many,4\n",
            ["line 2", "ContextTokens"],
        ),
        ("arrival_s,tenant\n0.0,a\n2.0,a\n1.0,a\n", ["line 4", "arrival_s"]),
        ("arrival_s,tenant\n-1.0,a\n", ["line 2", "arrival_s"]),
        ("arrival_s,tenant,deadline_s\n1.0,a,0.5\n", ["line 2", "deadline_s"]),
    ],
)
def test_bad_traces_are_named_with_line_and_column(shell: Shell, rows: str, words: list[str]) -> None:
    Path("trace.csv").write_text(rows)
    form = "canonical" if rows.startswith("arrival_s") else "azure-llm"
    refused(shell("trace", "info", "trace.csv", "--format", form), "trace.csv", *words)
    override = f"tenant.gold.arrivals={{trace='{form}', path='trace.csv'}}"
    refused(shell("run", small(Path.cwd()), "--set", override), *words)


def costs(folder: Path, kind: str = "npu", time: str = "1e-4", change: tuple[str, str] | None = None) -> Path:
    """A cost table for the small scenario's networks; ``change`` replaces the first such text."""
    rows = ["model,layer,type,latency_s,dram_bytes,energy_j"]
    for name in ("squeezenet", "kws-res8"):
        rows += [f"{name},{i},{kind},{time},1000,1e-6" for i in range(len(zoo.load(name).layers))]
    text = "\n".join(rows) + "\n"
    path = folder / "costs.csv"
    path.write_text(text.replace(*change, 1) if change else text)
    return path


MEASURED = [
    "--set",
    "platform={accelerators=[{type='npu', count=2}], dram_bandwidth_gb_s=8.0, cost_csv='costs.csv'}",
]


def test_measured_costs_take_the_place_of_the_model(shell: Shell) -> None:
    costs(Path.cwd())
    done = shell("run", small(Path.cwd()), *MEASURED, "--out", "one")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("1e-4", "0"), ["costs.csv", "line 2", "takes 0 s on 'npu'"]),
        (("1e-4", "quick"), ["costs.csv", "line 2", "'latency_s'", "'quick' is not a number"]),
        (("1e-4", "-1"), ["costs.csv", "line 2", "'latency_s'"]),
        (("1e-4", "inf"), ["npu", "can run", "squeezenet"]),
        (("latency_s", "latncy_s"), ["costs.csv", "compute_s or latency_s"]),
    ],
)
def test_measured_costs_that_cannot_be_are_named(
    shell: Shell, change: tuple[str, str], words: list[str]
) -> None:
    costs(Path.cwd(), change=change)
    refused(shell("run", small(Path.cwd()), *MEASURED), *words)


def test_a_gap_in_measured_costs_is_filled_and_said(shell: Shell) -> None:
    costs(Path.cwd(), change=("squeezenet,0,npu,1e-4,1000,1e-6\n", ""))
    done = shell("run", small(Path.cwd()), *MEASURED, "-p", "edf", "--out", "one")
    assert done.code == 0, done.err
    said = " ".join((done.out + done.err).split())
    assert "1 estimated by size; error when each given shape is left out: median" in said


def test_measured_costs_of_another_type_are_named(shell: Shell) -> None:
    costs(Path.cwd(), kind="npx")
    refused(shell("run", small(Path.cwd()), *MEASURED), "'npu'", "did you mean 'npx'")


def node(kind: str, inputs: list[str], outputs: list[str]) -> onnx.NodeProto:
    return onnx.helper.make_node(kind, inputs, outputs, name=f"the_{kind.lower()}")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Frobnicate", ["x"], ["y"])], ["Frobnicate", "the_frobnicate"]),
        ([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])], ["cycl"]),
        ([], ["net.onnx"]),
    ],
)
def test_networks_that_cannot_run_are_named(
    shell: Shell, nodes: list[onnx.NodeProto], words: list[str]
) -> None:
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:])
    Path("net.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    refused(shell("models", "net.onnx"), "net.onnx", *words)


def test_a_broken_scenario_file_is_named(shell: Shell) -> None:
    Path("broken.toml").write_text("name = \n")
    refused(shell("run", "broken.toml"), "broken.toml", "not valid TOML")
    refused(shell("compare", "absent.toml"), "cannot read the scenario absent.toml")


def test_a_policy_file_without_the_function_is_named(shell: Shell) -> None:
    Path("mine.py").write_text("def least_laxity(view):\n    return []\n")
    path = small(Path.cwd())
    refused(
        shell("run", path, "--policy", "mine.py:least_laxit"), "least_laxit", "did you mean 'least_laxity'"
    )
    refused(shell("run", path, "--policy", "yours.py:policy"), "no policy file yours.py")
    Path("broken.py").write_text("import nonexistent_module\n")
    refused(shell("run", path, "--policy", "broken.py:policy"), "broken.py", "ModuleNotFoundError")


def test_a_policy_that_breaks_the_rules_is_named(shell: Shell) -> None:
    Path("mine.py").write_text(
        "from eunomia import Assign\n\n\ndef everything_on_nine(view):\n    return [Assign(0, 0, 9)]\n\n\n"
        "def raises(view):\n    return view.nothing\n\n\ndef holds(view):\n    return []\n"
    )
    path = small(Path.cwd())
    refused(shell("run", path, "--policy", "mine.py:everything_on_nine"), "accelerator 9")
    refused(shell("run", path, "--policy", "mine.py:holds"), "must start one")
    refused(shell("run", path, "--policy", "mine.py:raises"), "policy 'raises'", "AttributeError")


def test_a_failing_policy_does_not_lose_the_others(shell: Shell) -> None:
    Path("mine.py").write_text("def holds(view):\n    return []\n")
    path = small(Path.cwd())
    done = shell("compare", path, "-p", "fcfs", "-p", "mine.py:holds", "--out", "cmp", "--seeds", "1", "-q")
    refused(done, "failed: holds seed 3", "must start one")
    assert "fcfs" in done.out
    assert Path("cmp/fcfs/3/requests.parquet").is_file() and Path("cmp/report.html").is_file()


POLICIES = """
import os, sys
value = 3
def exits(view): sys.exit(0)
def dies(view): os._exit(3)
def none(view): return None
def numbers(view): return [1, 2]
def two(view, other): return []
class Rule:
    def __call__(self, view): return []
class Nothing: pass
def nothing(): return Nothing()
def outside(view): return [view.assign(999, 0)]
def twice(view): return 2 * [view.assign(0, int(view.idle[0]))]
from dataclasses import dataclass
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rn", "small.toml"], "No such command 'rn'"),
        (["run"], "Missing argument 'SCENARIO'"),
        (["cluster", "whatif"], "Missing argument 'CLUSTER'"),
        (["run", "small.toml", "--polcy", "edf"], "No such option: --polcy (Possible options: --policy)"),
        (
            ["serve", "demo", "--port", "80"],
            "No such option: --port; keys of its file are set by --set KEY=VALUE;",
        ),
        (
            ["serve", "demoo"],
            "there is no server file 'demoo'; give the path of a TOML file, or 'demo' or 'key'",
        ),
        (["serve", "demo", "--set", "fallback=edff"], "fallback: unknown policy 'edff'; did you mean 'edf'"),
        (
            ["serve", "demo", "--set", "database=t.db"],
            "'t.db' is no URL; write sqlite:///PATH (three slashes",
        ),
        (
            ["load", "localhost", "--model", "m"],
            "'localhost' is no address to send requests to; write HOST:PORT",
        ),
        (["run", "small.toml", "--seed", "x"], "--seed is 'x'"),
        (
            ["compare", "small.toml", "--workers", "0"],
            "--workers is '0'; input should be greater than or equal",
        ),
        (["sweep", "small.toml", "--over", "load"], "--over load: write KEY=VALUE"),
        (["run", "smal.toml"], "did you mean small.toml?"),
        (["report", "small.toml"], "give a folder that eunomia run or compare wrote"),
    ],
)
def test_a_wrong_command_line_is_said_in_one_sentence(shell: Shell, words: list[str], said: str) -> None:
    small(Path.cwd())
    done = shell(*words)
    refused(done, said)
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (":exits", ["'exits'", "sys.exit(0)"]),
        (":none", ["policy 'none' must return a list of Assign", "it returned None"]),
        (":nothing", ["what policy 'nothing' of mine.py makes is a Nothing", "cannot be called"]),
        (":outside", ["policy 'outside' raised IndexError", "(mine.py, line"]),
        (":twice", ["policy 'twice': at ", "illegal decision", "which is busy"]),
        (":fcsf", ["unknown function in mine.py 'fcsf'", "choose one of: Nothing, Rule"]),
        (":numbers", ["policy 'numbers' must return a list of Assign", "it returned [1, 2]"]),
        (":two", ["'two' of mine.py takes (view, other)", "one argument"]),
        (":value", ["'value' of mine.py is 3", "cannot be called"]),
        (":Rule", ["must start one"]),
        (":Rule(speed=2)", ["unknown setting 'speed' of policy 'Rule'"]),
        ("", ["mine.py:FUNCTION"]),
    ],
)
def test_a_policy_that_is_none_is_told_what_it_must_be(shell: Shell, name: str, words: list[str]) -> None:
    Path("mine.py").write_text(POLICIES)
    refused(shell("run", small(Path.cwd()), "-p", f"mine.py{name}", "--out", "one"), *words)
    assert not Path("one").exists()


def test_a_policy_that_ends_the_process_is_not_praised(shell: Shell) -> None:
    Path("mine.py").write_text(POLICIES)
    words = ["-p", "mine.py:exits", "-p", "fcfs", "-p", "mine.py:dies", "--workers", "2", "--seeds", "1"]
    done = shell("compare", small(Path.cwd()), *words, "--out", "cmp")
    refused(
        done, "failed: exits seed 3: policy 'exits' called sys.exit(0)", "failed: dies", "(exit status 3)"
    )
    assert done.code == 1 and "nan" not in done.out.replace("tenant", "")
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()[1:5]}
    assert rows["exits"] == rows["dies"] == ["failed"] and "%" in rows["fcfs"]
    assert "exits has" not in done.out and "fcfs has a hit rate of" in done.out


def test_unwritable_output_is_said(shell: Shell) -> None:
    path = small(Path.cwd())
    Path("taken").write_text("a file, not a folder")
    for verb in ("run", "compare", "sweep"):
        refused(shell(verb, path, "--out", "taken/deeper"), "cannot write", "taken")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    import eunomia.core.records

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(eunomia.core.records.pq, "write_table", full)
    refused(shell("run", small(Path.cwd()), "-p", "edf", "--out", "out"), "disk is full")
    assert not Path("out").exists()


def test_what_is_not_a_run_is_said(shell: Shell) -> None:
    Path("empty").mkdir()
    refused(shell("explain", "empty", "req-1"), "empty")
    refused(shell("explain", "nowhere", "req-1"), "nowhere")
    refused(shell("report", "nowhere"), "nowhere")


def test_an_existing_run_is_not_overwritten_unasked(shell: Shell) -> None:
    path = small(Path.cwd())
    assert shell("run", path, "-p", "edf", "--out", "one").code == 0
    refused(shell("run", path, "--out", "one"), "one", "exists", "--force")
    assert shell("run", path, "-p", "edf", "--out", "one", "--force").code == 0
    refused(shell("run", path, "--out", ".", "--force"), "not written by Eunomia")
    refused(shell("compare", path, "--out", "one"), "holds a single run")


def test_a_folder_holds_the_comparison_of_one_scenario(shell: Shell) -> None:
    path = small(Path.cwd())
    assert shell("compare", path, "--out", "cmp", "--seeds", "1", "-q").code == 0
    other = ["--out", "cmp", "--set", "duration_s=0.3", "--seeds", "1", "-q"]
    refused(shell("compare", path, *other), "'cmp' holds another comparison", "--force")
    refused(shell("sweep", path, "--out", "cmp"), "'cmp' holds another comparison", "--force")
    assert Path("cmp/fcfs/3/requests.parquet").is_file() and not Path("cmp/INCOMPLETE").exists()
    assert shell("compare", path, "--out", "cmp", "--seeds", "2", "-q").code == 0, "the same one goes on"
    Path("cmp/notes.txt").write_text("mine")
    assert shell("compare", path, *other, "--force").code == 0
    assert not Path("cmp/fcfs/4").exists() and Path("cmp/notes.txt").is_file()


def test_damaged_runs_of_a_comparison_are_computed_again(shell: Shell) -> None:
    words = ["compare", small(Path.cwd()), "--out", "cmp", "-q"]
    assert shell(*words).code == 0
    hurt = [Path("cmp/fcfs/3/requests.parquet"), Path("cmp/fcfs/3/decisions.parquet"),
            Path("cmp/fcfs/4/manifest.json")]  # fmt: skip
    before = [path.read_bytes() for path in hurt[:2]]
    hurt[0].write_bytes(before[0][:200])
    hurt[1].unlink()
    hurt[2].unlink()
    assert shell(*words).code == 0
    assert [path.read_bytes() for path in hurt[:2]] == before and hurt[2].is_file()


def test_usage_errors_have_status_2(shell: Shell) -> None:
    assert shell("run").code == 2
    assert shell("rnu").code == 2
    assert shell("run", small(Path.cwd()), "--seed", "-1").code == 2
    assert shell("run", small(Path.cwd()), "--set", "duration_s=-1").code == 2
    assert shell("run", small(Path.cwd()), "--seed", str(2**63)).code == 2
    assert shell("compare", small(Path.cwd()), "--seeds", "10001").code == 2


def test_free_dimensions_are_given_by_name(shell: Shell) -> None:
    image = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", "seq", 4])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node("Softmax", ["x"], ["y"])], "g", [image], [result])
    Path("net.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    refused(shell("models", "net.onnx"), "'seq'", "--dim seq=128")
    refused(shell("models", "net.onnx", "--dim", "seq"), "--dim seq", "NAME=SIZE")
    refused(shell("models", "resnet50", "--dim", "seq=8"), "for ONNX files")
    assert shell("models", "net.onnx", "--dim", "seq=128").code == 0


def test_branches_and_loops_are_set_on_the_command_line(shell: Shell) -> None:
    helper = onnx.helper
    flag, x, y = (
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (("flag", onnx.TensorProto.BOOL, []), ("x", 1, [1, 4]), ("y", 1, [1, 4]))
    )
    ends = [onnx.ValueInfoProto(name="z")]
    branches = {
        f"{branch}_branch": helper.make_graph([node(kind, ["x"], ["z"])], branch, [], ends)
        for branch, kind in (("then", "Softmax"), ("else", "Relu"))
    }
    going, state = onnx.ValueInfoProto(name="going"), onnx.ValueInfoProto(name="state")
    body = helper.make_graph(
        [node("Softmax", ["state"], ["next"])], "body", [onnx.ValueInfoProto(name="i"), going, state],
        [going, onnx.ValueInfoProto(name="next")],
    )  # fmt: skip
    count = helper.make_tensor_value_info("count", onnx.TensorProto.INT64, [])
    nodes = [
        helper.make_node("If", ["flag"], ["p"], name="pick", **branches),
        helper.make_node("Loop", ["count", "", "p"], ["y"], name="again", body=body),
    ]
    Path("net.onnx").write_bytes(
        helper.make_model(helper.make_graph(nodes, "g", [flag, x, count], [y])).SerializeToString()
    )
    refused(shell("models", "net.onnx"), "net.onnx", "'pick' (If)", "--branch pick=then")
    refused(shell("models", "net.onnx", "--branch", "pick=then"), "'again' (Loop)", "--trip-count again=12")
    refused(shell("models", "net.onnx", "--branch", "pick"), "--branch pick", "NODE=then")
    refused(shell("models", "net.onnx", "--branch", "pick=maybe"), "--branch pick=maybe", "NODE=then")
    refused(
        shell("models", "net.onnx", "--trip-count", "again=often"), "--trip-count again=often", "NODE=COUNT"
    )
    refused(shell("models", "net.onnx", "--branch", "pik=then"), "unknown branch 'pik'", "'pick'")
    refused(shell("models", "resnet50", "--branch", "pick=then"), "--branch is for ONNX files")
    refused(shell("models", "resnet50", "--trip-count", "again=3"), "--trip-count is for ONNX files")
    done = shell("models", "net.onnx", "--branch", "pick=else", "--trip-count", "again=3", "--json")
    kinds = [layer["kind"] for layer in json.loads(done.out)["layers"]]
    assert kinds == ["elementwise", "softmax", "softmax", "softmax"]
