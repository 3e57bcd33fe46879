"""``eunomia sharing`` as a shell sees it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from tests.cli.shell import Shell


def test_queue(shell: Shell) -> None:
    done = shell("sharing", "queue", "--tasks", 50, "--seeds", 2, "--seed", 3, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["seeds"] == [3, 4] and len(found["methods"]["Irina"]["mean_s"]) == 2
    wrong = shell("sharing", "queue", "--load", -1)
    assert wrong.code == 2 and "load is -1.0; more than 0" in wrong.err


def test_place(shell: Shell) -> None:
    done = shell("sharing", "place", "--servers", 10, "--apps", 20, "--seeds", 1)
    assert done.code == 0 and "two-step, true scores" in done.out, done.err


def test_predict(shell: Shell, tmp_path: Path) -> None:
    table, features = tmp_path / "t.csv", tmp_path / "f.csv"
    names = "abcdef"
    rows = [f"{a},{b},v,{1 + 0.1 * i}" for i, a in enumerate(names) for b in names]
    table.write_text("target,neighbours,kind,slowdown\n" + "\n".join([*rows, *rows]))
    features.write_text("job,utilisation\n" + "\n".join(f"{a},0.5" for a in names))
    done = shell("sharing", "predict", table, "--features", features, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["noise_floor"] == 0.0 and "linear" in found["results"][0]["methods"]
    assert ("forest" in found["results"][0]["methods"]) == bool(find_spec("sklearn"))
    missed = shell("sharing", "misses", table, "--seeds", 1, "--load", 0.5, "--json")
    assert missed.code == 0 and "oracle" in json.loads(missed.out)["methods"], missed.err
    wrong = shell("sharing", "misses", table, "--slack", 0.5)
    assert wrong.code == 2 and "slack 0.5; more than 0, and at least 1" in wrong.err
    wrong = shell("sharing", "misses-engine", table, "--load", 1)
    assert wrong.code == 2 and "load 1.0 and deadline 3.0; between 0 and 1" in wrong.err
    wrong = shell("sharing", "predict", table, "--features", tmp_path)
    assert wrong.code == 2 and "holds no ONNX file; give a folder of networks" in wrong.err
    plain = shell("sharing", "predict", table)
    assert plain.code == 0 and "noise floor: 0.0%" in plain.out
    table.write_text("a,b\n")
    wrong = shell("sharing", "predict", table)
    assert wrong.code != 0 and "no column 'target'" in wrong.err and "slowdown, slowdown" not in wrong.err


def test_features_of_networks_that_others_made(shell: Shell, tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "benchmarks" / "networks"
    names = sorted(path.stem for path in folder.glob("*.onnx"))[5:9]
    table = tmp_path / "t.csv"
    rows = [f"{a},{b},v,{1.1 + 0.1 * i}" for i, a in enumerate(names) for b in names * 3]
    table.write_text("target,neighbours,kind,slowdown\n" + "\n".join(rows))
    done = shell("sharing", "predict", table, "--features", folder, "--json")
    assert done.code == 0, done.err
    assert {"linear", "utilisation_sum"} <= set(json.loads(done.out)["results"][0]["methods"])
