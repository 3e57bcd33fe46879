# ruff: noqa: E501, E731, B905, SIM105
"""Files entered and returns of four walks through the code: ``python tests/house/walks.py CHECKOUT [CHECKOUT ...]``.

Definition. A reader follows the program and reads every function (of eunomia, compiled code, class bodies and module
bodies left out) when it is called for the first time. Functions read one after the other in one file are one stay.
files = files entered; returns = stays - files, how often the reader comes back to a file that was left before.
"While importing" are functions that run because a module is imported: decorators, tables, checks of constants.
Each command runs twice; the first run warms caches (compiled code, cost tables) and is not counted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).parent
SCENARIO = """
name = "walk"
duration_s = 0.05
platform = { preset = "npu-mix" }
tenant = [{ name = "gold", models = [{ model = "squeezenet", deadline_factor = 3.0, slo = { hit_rate = 0.9 } }], arrivals = { process = "poisson", rate_per_s = 300.0 } }]
"""
COMMON = 'name = "walk"\nscenarios = ["scenario.toml"]\nrequests = 20\nvalidation = 2\nbase = "edf+f+eft"\n'
TRAININGS = {
    "search in stages": COMMON
    + '[[stage]]\nstage = "linear"\ngenerations = 2\npopulation = 4\nepisodes = 2\nvalidate_every = 1\n',
    "ppo": COMMON
    + '[algorithm]\nname = "ppo"\niterations = 2\nepisodes = 2\nepochs = 1\nunits = 8\nvalidate_every = 1\n',
    "ddpg": COMMON
    + '[algorithm]\nname = "ddpg"\niterations = 2\nupdates = 2\nclone_episodes = 1\nclone_steps = 2\ncritic_first = 1\nunits = 8\nvalidate_every = 1\n',
}


def environment(checkout: Path, out: Path, how: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WALK")}
    return {
        **kept,
        "PYTHONPATH": f"{HERE / 'walk'}:{checkout}",
        "WALK": how,
        "WALK_ROOT": str(checkout),
        "WALK_OUT": str(out),
    }


def read(out: Path) -> list[list[tuple[str, bool]]]:
    found = []
    for path in sorted(out.glob("*.json")):
        each = json.loads(path.read_text())["functions"]
        if each:
            found.append([(f, importing) for f, _, importing in each])
        path.unlink()
    return found


def counts(walks: list[list[tuple[str, bool]]]) -> dict[str, object]:
    stays = [file for walk in walks for file, _ in groupby(file for file, _ in walk)]
    files = list(dict.fromkeys(stays))
    learns = [file for file, _ in groupby(f for f in stays if any(word in f for word in LEARNS))]
    called = [file for walk in walks for file, _ in groupby(f for f, importing in walk if not importing)]
    return {
        "imports left out": [len(set(called)), len(called), len(called) - len(set(called))],
        "of learning": [len(set(learns)), len(learns), len(learns) - len(set(learns))],
        "functions": sum(map(len, walks)),
        "files": len(files),
        "stays": len(stays),
        "returns": len(stays) - len(files),
        "processes": len(walks),
        "path": stays,
    }


def command(checkout: Path, arguments: list[str], folder: Path) -> dict[str, object]:
    for turn in (0, 1):
        out = folder / f"out{turn}"
        out.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "eunomia", *arguments],
            cwd=folder,
            text=True,
            env=environment(checkout, out, "start"),
            capture_output=True,
        )
        if done.returncode:
            raise SystemExit(f"{arguments}: {done.stderr[-2000:]} {done.stdout[-500:]}")
        for made in ("run", "job", "trained"):
            subprocess.run(["rm", "-rf", str(folder / made)])
            for p in folder.glob(made + ".*"):
                p.unlink() if p.is_file() else None
    return counts(read(folder / "out1"))


def request(checkout: Path, folder: Path) -> dict[str, object]:
    """One inference over HTTP, after three others."""
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / "small.onnx",
    )
    (folder / "server.toml").write_text(
        'http_port = 0\ngrpc_port = 0\nanonymous = true\ncache_dir = "cache"\n[[device]]\nname = "cpu"\n'
        '[[network]]\nname = "small"\nonnx = "small.onnx"\n[[tenant]]\nname = "default"\npromise = [{ model = "*", deadline_ms = 1000.0 }]\n'
    )
    out = folder / "served"
    out.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "eunomia", "serve", "server.toml", "--json"],
        cwd=folder,
        text=True,
        env=environment(checkout, out, "signal"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        at = json.loads(server.stdout.readline())["http"]
        at = at if at.startswith("http") else f"http://{at}"
        body = json.dumps(
            {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0.5] * 64}]}
        ).encode()

        def ask() -> None:
            asked = urllib.request.Request(
                f"{at}/v2/models/small/infer", body, {"content-type": "application/json"}
            )
            with urllib.request.urlopen(asked, timeout=60) as answer:
                answer.read()

        for _ in range(3):
            ask()
        time.sleep(1.0)
        family = [
            server.pid,
            *(
                int(p)
                for p in subprocess.run(
                    ["pgrep", "-P", str(server.pid)], capture_output=True, text=True
                ).stdout.split()
            ),
        ]
        family = [p for p in family if b"resource_tracker" not in Path(f"/proc/{p}/cmdline").read_bytes()]
        for turn in (0, 1):
            for pid in family:
                os.kill(pid, signal.SIGUSR2)
            time.sleep(0.5)
            if turn == 0:
                ask()
                time.sleep(0.5)
        time.sleep(1.0)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    return counts(read(out))


def walks(checkout: Path) -> dict[str, dict[str, object]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scenario.toml").write_text(SCENARIO)
        found = {}
        found["one request through the lab (eunomia run)"] = command(
            checkout, ["run", "scenario.toml", "--policy", "edf+f+eft", "--out", "run", "--quiet"], folder
        )
        found["one job (eunomia cluster simulate)"] = command(
            checkout,
            [
                "cluster",
                "simulate",
                str(checkout / "examples/cluster_jobs.toml"),
                "--policy",
                "max_min_fairness_perf",
                "--out",
                "job",
                "--quiet",
            ],
            folder,
        )
        for label, training in TRAININGS.items():
            (folder / "training.toml").write_text(training)
            found[f"one training configuration ({label})"] = command(
                checkout, ["train", "training.toml", "--out", "trained", "--workers", "1", "--quiet"], folder
            )
        found["one request through the server (HTTP)"] = request(checkout, folder)
        return found


LEARNS = (
    "learn",
    "config/training",
    "config/algorithm",
    "experiment/algorithms",
    "experiment/evaluation",
    "guarded",
)


def main() -> None:
    results = {checkout: walks(Path(checkout).resolve()) for checkout in sys.argv[1:]}
    print(
        "| walk | "
        + " | ".join(f"{Path(c).name}: files | stays | returns | functions" for c in results)
        + " |"
    )
    print("|---|" + "---:|" * 4 * len(results))
    for name in next(iter(results.values())):
        print(
            f"| {name} | "
            + " | ".join(
                " | ".join(str(r[name][k]) for k in ("files", "stays", "returns", "functions"))
                for r in results.values()
            )
            + " |"
        )
    for name in next(iter(results.values())):
        if "training" in name:
            print(
                f"| of it, files that learn: {name} | "
                + " | ".join(" | ".join(map(str, r[name]["of learning"])) + " | " for r in results.values())
                + " |"
            )
    for name in next(iter(results.values())):
        print(
            f"| imports left out: {name} | "
            + " | ".join(" | ".join(map(str, r[name]["imports left out"])) + " | " for r in results.values())
            + " |"
        )
    Path("out").mkdir(exist_ok=True)
    for checkout, found in results.items():
        Path(f"out/walks_{Path(checkout).resolve().name}.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
