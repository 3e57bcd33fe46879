"""The verbs: what they print, what they write, how they behave off a terminal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from eunomia import __version__
from eunomia.cli import options
from eunomia.inference.policies.tuned import tuned_name
from tests import children
from tests.cli.scenarios import small
from tests.cli.shell import Shell

ROOT = Path(__file__).parents[2]


def test_run_prints_metrics_and_leaves_a_run(shell: Shell) -> None:
    done = shell("run", small(Path.cwd()), "-p", "edf", "--seed", "4", "--out", "one")
    assert done.code == 0 and done.err == ""
    assert "policy edf, seed 4" in done.out and "gold" in done.out and "one/report.html" in done.out
    assert {p.name for p in Path("one").iterdir()} >= {
        "manifest.json",
        "requests.parquet",
        "report.html",
        "timeline.json",
    }
    assert json.loads(Path("one/timeline.json").read_text())["traceEvents"]


def test_every_key_of_the_manifests_is_documented(shell: Shell) -> None:
    assert shell("compare", small(Path.cwd()), "-p", "edf", "--seeds", "2", "--out", "both").code == 0
    page = (ROOT / "docs" / "records.md").read_text()
    manifests = [json.loads(path.read_text()) for path in Path("both").rglob("manifest.json")]
    assert len(manifests) == 3
    assert {key for manifest in manifests for key in manifest if f"`{key}`" not in page} == set()


def test_run_names_its_folder_after_scenario_policy_and_seed(shell: Shell) -> None:
    assert shell("run", small(Path.cwd()), "-p", "fcfs", "-q").code == 0
    assert Path("runs/small-lab-fcfs-3/manifest.json").is_file()


def test_a_run_that_names_no_policy_rehearses(shell: Shell) -> None:
    assert shell("run", small(Path.cwd()), "-q").code == 0  # its [compare] begins with fcfs
    policy = json.loads(Path("runs/small-lab-eunomia-3/manifest.json").read_text())["policy"]
    assert policy["name"] == "eunomia" and policy["rehearsed"]["scores"]
    assert shell("run", small(Path.cwd()), "-q", "--set", "policy='edf'").code == 0
    assert Path("runs/small-lab-edf-3/manifest.json").is_file()


def test_json_is_one_document_and_nothing_else(shell: Shell) -> None:
    path = small(Path.cwd())
    one = json.loads(shell("run", path, "-p", "edf", "--json", "--out", "one").out)
    assert one["metrics"]["requests"] > 0
    both = json.loads(shell("compare", path, "--json", "--out", "two").out)
    assert set(both["policies"]) == {"fcfs", "edf+f+eft"}
    estimate = both["policies"]["fcfs"]["metrics"]["hit_rate"]
    assert estimate["seeds"] == 2 and estimate["low"] <= estimate["mean"] <= estimate["high"]
    grid = json.loads(shell("sweep", path, "--json", "--seeds", "1", "--out", "three").out)
    assert [point["setting"] for point in grid["points"]] == [{"load": 0.5}, {"load": 1.0}]
    for words in (("models",), ("models", "squeezenet"), ("platforms",), ("policies",), ("trace", "formats")):
        json.loads(shell(*words, "--json").out)


def test_compare_prints_one_row_per_policy_and_who_lost(shell: Shell) -> None:
    done = shell("compare", small(Path.cwd()), "--out", "cmp", "--set", "load=1.5")
    assert done.code == 0, done.err
    for words in (
        "policy",
        "SLO attainment",
        "worst tenant",
        "Jain",
        "utilisation",
        "fcfs",
        "edf+f+eft",
        "has the highest hit rate",
    ):
        assert words in done.out
    assert Path("cmp/report.html").is_file() and Path("cmp/fcfs/3/requests.parquet").is_file()


def test_the_printed_table_is_byte_stable(shell: Shell) -> None:
    path = small(Path.cwd())
    tables = [shell("compare", path, "-q", "--out", f"cmp{n}", "--workers", n).out for n in (1, 2)]
    assert tables[0] == tables[1] and tables[0]
    assert "\x1b[" not in tables[0], "no colours off a terminal"


def test_a_sweep_leaves_one_tidy_table(shell: Shell) -> None:
    done = shell(
        "sweep", small(Path.cwd()), "--over", "load=[0.5, 0.8]", "-p", "edf", "--seeds", "2", "--out", "grid"
    )
    assert done.code == 0, done.err
    rows = pq.read_table("grid/sweep.parquet").to_pylist()
    assert [(row["load"], row["seed"]) for row in rows] == [(0.5, 3), (0.5, 4), (0.8, 3), (0.8, 4)]
    assert Path("grid/sweep.csv").read_text().startswith('"load","policy","seed"')


def test_explain_tells_the_story_of_a_request(shell: Shell) -> None:
    assert shell("compare", small(Path.cwd()), "--out", "cmp", "-q", "--record", "all").code == 0
    told = shell("explain", "cmp", "req-5", "--policy", "edf+f+eft")
    assert told.code == 0 and "req-5" in told.out and "edf+f+eft" in told.out
    story = json.loads(shell("explain", "cmp/fcfs/4", "5", "--json").out)
    assert (story["policy"], story["seed"], story["request"]) == ("fcfs", 4, 5)
    assert story["checked"] == story["agreed"]
    nobody = shell("explain", "cmp", "req-999999")
    assert nobody.code != 0 and "999999" in nobody.err
    absent = shell("explain", "cmp", "req-5", "--policy", "llf")
    assert absent.code == 2 and "no run of llf" in absent.err and "fcfs" in absent.err


def test_a_policy_has_one_name_however_it_is_written(shell: Shell) -> None:
    words = [
        "-p",
        "fcfs",
        "-p",
        "EDF+feasible",
        "--set",
        "compare.baseline=edf-f",
        "--seeds",
        "1",
        "--out",
        "cmp",
    ]
    done = shell("compare", small(Path.cwd()), *words)
    assert done.code == 0 and "minus that of edf+f, in points" in done.out, done.err
    assert "under edf+f" in shell("explain", "cmp", "req-5", "-p", "EDF+F").out
    twice = shell("compare", small(Path.cwd()), "-p", "edf+f", "-p", "edf+f+f")
    assert twice.code == 2 and "two policies are called 'edf+f'" in twice.err


def test_report_is_written_anew(shell: Shell) -> None:
    assert shell("compare", small(Path.cwd()), "--out", "cmp", "-q").code == 0
    before = Path("cmp/report.html").read_bytes()
    Path("cmp/report.html").unlink()
    assert shell("report", "cmp").code == 0
    assert Path("cmp/report.html").read_bytes() == before


def test_demo_shows_winners_losers_and_where_things_are(shell: Shell) -> None:
    done = shell(
        "demo",
        "--seeds",
        "1",
        "-p",
        "fcfs",
        "-p",
        "edf+f+eft",
        "--set",
        "duration_s=0.5",
        "--explain",
        "req-42",
    )
    assert done.code == 0, done.err
    for words in (
        "worst tenant",
        "out/demo/report.html",
        "out/demo/timeline.json",
        "eunomia explain out/demo",
        "req-42",
    ):
        assert words in done.out
    assert Path("out/demo/fcfs/0/decisions.parquet").is_file()


def test_catalogues_list_what_there_is(shell: Shell) -> None:
    assert "resnet50" in shell("models").out and "gpt2-prefill" in shell("models").out
    assert "conv" in shell("models", "resnet50").out
    assert "simba" in shell("platforms").out
    policies = shell("policies").out
    assert all(name in policies for name in ("fcfs", "edf", "min_min", "round_robin"))
    assert "Earliest deadline" in shell("policies", "edf").out
    tuned = shell("policies", "prema+tuned").out
    assert "chosen on validation traces" in tuned and "PREMA, HPCA 2020" in tuned
    assert f"\n{tuned_name('prema')}, chosen" in tuned
    assert "Earliest deadline" in shell("policies", "edf+f+eft").out
    wrong = shell("run", small(Path.cwd()), "--policy", "edf+g0")
    assert wrong.code == 2 and "'edf+g0'" in wrong.err and "such as 0.9, or be left out" in wrong.err
    wrong = shell("models", "resnet5")
    assert wrong.code == 2 and "did you mean" in wrong.err


def test_trace_info_import_and_use(shell: Shell) -> None:
    rows = "".join(f"2023-11-16 18:15:{46 + n * 0.5:07.4f},{100 + n},4\n" for n in range(20))
    Path("llm.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    told = shell("trace", "info", "llm.csv")
    assert told.code == 0 and "azure-llm, 20 rows over 9.5 s" in told.out
    assert shell("trace", "import", "azure-llm", "llm.csv").code == 0
    assert shell("trace", "convert", "llm.csv", "--out", "llm.out.csv").code == 0
    said = json.loads(shell("trace", "convert", "llm.csv", "--out", "llm.two.parquet", "--json").out)
    assert said["path"] == "llm.two.parquet" and said["rows"] == pq.read_table("llm.two.parquet").num_rows
    assert "canonical, 20 rows" in shell("trace", "info", "llm.canonical.parquet").out
    arrivals = "tenant.gold.arrivals={trace='canonical', path='llm.canonical.parquet', speedup=40.0}"
    done = shell("run", small(Path.cwd()), "-p", "edf", "--set", arrivals, "--json", "--out", "one")
    assert done.code == 0, done.err


def test_columns_of_a_trace_that_are_not_used_are_said(shell: Shell) -> None:
    rows = "".join(f"{n * 0.01:.2f},{'ab'[n % 2]},tiny,{n * 0.01 + 1.0:.2f}\n" for n in range(40))
    Path("door.csv").write_text("arrival_s,tenant,model,deadline_s\n" + rows)
    words = [
        "run",
        small(Path.cwd()),
        "-p",
        "edf",
        "--set",
        "tenant.gold.arrivals={trace='canonical', path='door.csv'}",
    ]
    done = shell(*words)
    assert done.code == 0 and done.err.startswith("note: tenant 'gold': "), done.err
    assert "2 tenants and models and deadlines" in done.err and len(done.err.splitlines()) == 1
    one = shell("compare", *words[1:], "--set", "tenant.gold.arrivals.tenant=a", "--seeds", "1")
    assert one.code == 0 and "tenants" not in one.err and "models and deadlines" in one.err
    assert shell(*words, "-q").err == ""


def test_scenario_show_prints_the_resolved_scenario(shell: Shell) -> None:
    shown = shell("scenario", "show", small(Path.cwd()), "--set", "seed=9")
    assert shown.code == 0 and "seed = 9" in shown.out and 'late = "last"' in shown.out
    Path("resolved.toml").write_text(shown.out)
    again = shell("scenario", "show", "resolved.toml")
    assert again.out == shown.out
    assert json.loads(shell("scenario", "show", "resolved.toml", "--format", "json").out)["seed"] == 9
    assert "2 tenants, 2 networks" in shell("scenario", "check", "resolved.toml").out
    assert json.loads(shell("scenario", "schema").out)["title"] == "Scenario"


def test_a_policy_of_a_file_runs_on_a_process_per_core(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "cores", lambda: 2)
    Path("mine.py").write_text(
        "import os\nfrom pathlib import Path\n\nimport numpy as np\n\n\ndef first(view):\n"
        "    Path(f'{os.getpid()}.pid').touch()\n"
        "    device = int(view.idle[np.argmin(view.latency_s[0, view.idle])])\n"
        "    return [view.assign(0, device)]\n"
    )
    done = shell("compare", small(Path.cwd()), "-p", "fcfs", "-p", "mine.py:first", "-q", "--out", "cmp")
    assert done.code == 0, done.err
    assert Path("cmp/first/4/requests.parquet").is_file()
    assert 1 <= len(list(Path.cwd().glob("*.pid"))) <= 2 and not Path(f"{os.getpid()}.pid").exists()


LOADED = """
import sys
from eunomia.cli.main import status
sys.argv = ["eunomia", sys.argv[1]]
code = status()
sys.stderr.write(" ".join({name.partition(".")[0] for name in sys.modules}))
sys.exit(code)
"""
HEAVY = {"numpy", "numba", "pyarrow", "pydantic", "onnx", "torch", "scipy"}


@pytest.mark.parametrize("word, shows", [("--version", __version__), ("--help", "sweep")])
def test_version_and_help_load_no_heavy_library(word: str, shows: str) -> None:
    done = children.run(children.python("-c", LOADED, word))
    assert done.returncode == 0 and shows in done.stdout
    loaded = set(done.stderr.split())
    assert "typer" in loaded and not loaded & HEAVY
    assert shows in children.run(children.eunomia(word)).stdout
