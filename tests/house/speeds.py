# ruff: noqa: E501, E731, B905, SIM105
"""Speeds of two checkouts, measured alternately: ``python tests/house/speeds.py BEFORE AFTER [--pairs 9] [--only WORD] [--scale 1.0]``.

One process per checkout lives through the whole run; both do the same work in turns (A B, B A, A B, ...). Each line gives
the median over pairs of after / before with its quartiles and extremes: above 1 = slower. Times are those of the manifest
(wall_s over events or decisions, median time of a programme), for which the processes' clock is replaced by processor
time (SPEEDS=wall leaves it), and processor time of a server's processes per request. The last column is processor time of the whole command, after / before.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = r"""
import json, sys, time, os, io, contextlib, runpy
if os.environ.get("SPEEDS") != "wall":
    time.perf_counter = time.process_time  # what the product times is then processor time: others on the machine cost less
answers = sys.stdout
def lab(given):
    import eunomia
    began = time.process_time()
    result = eunomia.run(given["scenario"], given["policy"], 1, record="requests")
    cpu = time.process_time() - began
    m = result.records.manifest
    return {"wall_s": m["wall_s"], "events": m["events"], "decisions": m["decisions"], "p50": m["decision_p50_s"], "cpu_s": cpu}
def jobs(given):
    sys.argv = ["eunomia", "cluster", "simulate", given["file"], "--policy", given["policy"], "--out", given["out"], "--force", "--quiet"]
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        try: runpy.run_module("eunomia", run_name="__main__", alter_sys=True)
        except SystemExit as left: assert not left.code, left.code
    cpu = time.process_time() - began
    metrics = json.load(open(os.path.join(given["out"], "manifest.json")))["metrics"]
    return {"solve_s": metrics["solve_median_s"], "cpu_s": cpu}
for line in sys.stdin:
    given = json.loads(line)
    print(json.dumps({"lab": lab, "jobs": jobs}[given["kind"]](given)), file=answers, flush=True)
"""


class Process:
    def __init__(self, checkout: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            cwd="/",
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def do(self, given: dict) -> dict:
        self.child.stdin.write(json.dumps(given) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())


def scenario(scale: float, seconds: float, late: str = "last", contention: str = "proportional") -> dict:
    arrivals = lambda rate: {"process": "poisson", "rate_per_s": rate}
    return {
        "name": "speed",
        "duration_s": seconds * scale,
        "engine": {"late": late},
        "platform": {"preset": "simba3-eyeriss3", "contention": contention},
        "tenant": [
            {
                "name": "a",
                "models": [{"model": "resnet50", "deadline_factor": 3.0, "slo": {"hit_rate": 0.9}}],
                "arrivals": arrivals(150.0),
            },
            {
                "name": "b",
                "models": [{"model": "mobilenet-v2", "deadline_factor": 4.0, "slo": {"hit_rate": 0.9}}],
                "arrivals": arrivals(300.0),
            },
            {
                "name": "c",
                "models": [{"model": "bert-small", "deadline_factor": 4.0}],
                "arrivals": arrivals(150.0),
            },
        ],
    }


def cluster(folder: Path) -> str:
    path = folder / "cluster.toml"
    path.write_text(
        'name = "speed"\n'
        'device = [{ type = "fast", count = 16, per_server = 4, cost_per_hour = 2.0 }, { type = "mid", count = 16, per_server = 4, cost_per_hour = 1.0 }, { type = "slow", count = 32, per_server = 8, cost_per_hour = 0.5 }]\n'
        '[[throughputs.model]]\nname = "a"\nspeed = { fast = 4.4, mid = 2.0, slow = 0.6 }\nscales = [1, 2, 4]\n'
        '[[throughputs.model]]\nname = "b"\nspeed = { fast = 12.0, mid = 8.0, slow = 3.1 }\nscales = [1, 2, 4]\n'
        '[[throughputs.model]]\nname = "c"\nspeed = { fast = 3.0, mid = 2.9, slow = 2.4 }\nscales = [1, 2, 4]\n'
        '[generate]\njobs = 150\nmean_gap_s = 300.0\nkind = "hours"\npriorities = true\n'
    )
    return str(path)


def quartiles(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return (
        f"{statistics.median(ratios):.3f} | {low:.3f} .. {high:.3f} | {min(ratios):.3f} .. {max(ratios):.3f}"
    )


def alternate(pairs: int, sides: list, measure) -> tuple[list[float], list[float]]:
    found: tuple[list[float], list[float]] = ([], [])
    for side in sides:
        measure(side)  # warm
    for n in range(pairs):
        for at in (0, 1) if n % 2 == 0 else (1, 0):
            found[at].append(measure(sides[at]))
    return found


class Server:
    def __init__(self, checkout: Path, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "eunomia", "serve", "server.toml", "--json"],
            cwd=folder,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        at = json.loads(self.process.stdout.readline())["http"].removeprefix("http://")
        self.connection = http.client.HTTPConnection(at, timeout=60)
        below = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True
        ).stdout.split()
        self.family = [self.process.pid, *map(int, below)]
        self.body = json.dumps(
            {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0.5] * 64}]}
        ).encode()

    def cpu_s(self, who: list[int]) -> float:
        """Processor time with the scheduler's resolution of nanoseconds."""
        total = 0
        for pid in who:
            for task in Path(f"/proc/{pid}/task").iterdir():
                try:
                    total += int((task / "schedstat").read_text().split()[0])
                except (FileNotFoundError, ProcessLookupError):
                    pass
        return total * 1e-9

    def ask(self, count: int) -> dict:
        before, began = [self.cpu_s([p]) for p in self.family], time.perf_counter()
        for _ in range(count):
            self.connection.request(
                "POST", "/v2/models/small/infer", self.body, {"content-type": "application/json"}
            )
            answer = self.connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
        took = time.perf_counter() - began
        after = [self.cpu_s([p]) for p in self.family]
        return {
            "front_us": 1e6 * (after[0] - before[0]) / count,
            "all_us": 1e6 * (sum(after) - sum(before)) / count,
            "latency_us": 1e6 * took / count,
        }

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def serving(checkouts: list[Path], pairs: int, requests: int) -> list[str]:
    import onnx
    from onnx import TensorProto, helper

    lines = []
    with tempfile.TemporaryDirectory() as name:
        servers = []
        for number, checkout in enumerate(checkouts):
            folder = Path(name) / str(number)
            folder.mkdir()
            value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 64])
            graph = helper.make_graph(
                [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x")], [value("y")]
            )
            onnx.save(
                helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                folder / "small.onnx",
            )
            (folder / "server.toml").write_text(
                'http_port = 0\ngrpc_port = 0\nanonymous = true\ncache_dir = "cache"\n[[device]]\nname = "cpu"\n'
                '[[network]]\nname = "small"\nonnx = "small.onnx"\n[[tenant]]\nname = "default"\npromise = [{ model = "*", deadline_ms = 1000.0, slo = { hit_rate = 0.9 } }]\n'
            )
            servers.append(Server(checkout, folder))
        try:
            found: list[list[dict]] = [[], []]
            for server in servers:
                server.ask(requests)
            for n in range(pairs):
                for at in (0, 1) if n % 2 == 0 else (1, 0):
                    found[at].append(servers[at].ask(requests))
            for key, what in (
                ("front_us", "server: front process, processor time a request, us"),
                ("all_us", "server: all processes, processor time a request, us"),
                ("latency_us", "server: one request after the other, wall time, us"),
            ):
                a, b = ([each[key] for each in side] for side in found)
                lines.append(
                    f"| {what} | {statistics.median(a):.4g} | {statistics.median(b):.4g} | {quartiles([y / x for x, y in zip(a, b)])} | |"
                )
        finally:
            for server in servers:
                server.stop()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    checkouts = [options.before.resolve(), options.after.resolve()]
    print(f"{options.pairs} pairs; load {os.getloadavg()}; scale {options.scale}")
    print(
        "| what | before | after | after / before, median | quartiles | extremes | whole command, processor time |\n|---|---:|---:|---:|---|---|---:|",
        flush=True,
    )
    lab = {  # label: policy, scenario, quantity
        "engine: edf+f+eft, ns an event": (
            "edf+f+eft",
            scenario(options.scale, 30.0),
            lambda m: 1e9 * m["wall_s"] / m["events"],
        ),
        "engine: fcfs, max-min sharing, ns an event": (
            "fcfs",
            scenario(options.scale, 30.0, "run", "max_min"),
            lambda m: 1e9 * m["wall_s"] / m["events"],
        ),
        "engine: laxity_ratio (dynamic), ns an event": (
            "laxity_ratio",
            scenario(options.scale, 20.0, "drop"),
            lambda m: 1e9 * m["wall_s"] / m["events"],
        ),
        "decision: eunomia (learned, compiled), us": (
            "eunomia",
            scenario(options.scale, 4.0, "drop"),
            lambda m: 1e6 * m["wall_s"] / m["decisions"],
        ),
        "decision: relmas (learned), us": (
            "relmas",
            scenario(options.scale, 0.6, "drop"),
            lambda m: 1e6 * m["wall_s"] / m["decisions"],
        ),
        "decision: lookahead, us": (
            "lookahead",
            scenario(options.scale, 4.0, "last"),
            lambda m: 1e6 * m["wall_s"] / m["decisions"],
        ),
        "decision: prema (asked by the engine), us": (
            "prema",
            scenario(options.scale, 4.0, "drop"),
            lambda m: 1e6 * m["wall_s"] / m["decisions"],
        ),
    }
    with tempfile.TemporaryDirectory() as name:
        sides = [Process(each) for each in checkouts]
        for label, (policy, table, quantity) in lab.items():
            if options.only not in label:
                continue
            cpu: dict[int, list[float]] = {0: [], 1: []}

            def measure(side, policy=policy, table=table, quantity=quantity, cpu=cpu):
                found = side.do({"kind": "lab", "scenario": table, "policy": policy})
                cpu[sides.index(side)].append(found["cpu_s"])
                return quantity(found)

            a, b = alternate(options.pairs, sides, measure)
            whole = statistics.median([y / x for x, y in zip(cpu[0][1:], cpu[1][1:])])
            print(
                f"| {label} | {statistics.median(a):.4g} | {statistics.median(b):.4g} | {quartiles([y / x for x, y in zip(a, b)])} | {whole:.3f} |",
                flush=True,
            )
        file = cluster(Path(name))
        for policy in (
            "max_min_fairness_perf",
            "max_min_fairness_water_filling_perf",
            "finish_time_fairness_perf",
        ):
            label = f"solver: {policy}, median of a programme, ms"
            if options.only not in label:
                continue
            cpu = {0: [], 1: []}

            def measure(side, policy=policy, cpu=cpu):
                at = sides.index(side)
                found = side.do({"kind": "jobs", "file": file, "policy": policy, "out": f"{name}/{at}"})
                cpu[at].append(found["cpu_s"])
                return 1e3 * found["solve_s"]

            a, b = alternate(options.pairs, sides, measure)
            whole = statistics.median([y / x for x, y in zip(cpu[0][1:], cpu[1][1:])])
            print(
                f"| {label} | {statistics.median(a):.4g} | {statistics.median(b):.4g} | {quartiles([y / x for x, y in zip(a, b)])} | {whole:.3f} |",
                flush=True,
            )
        for side in sides:
            side.child.stdin.close()
            side.child.wait()
    if options.only in "server":
        print("\n".join(serving(checkouts, options.pairs, int(600 * options.scale))), flush=True)


if __name__ == "__main__":
    main()
