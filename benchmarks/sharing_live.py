"""Several tenants on one core of this machine, measured: shares, time slices, co-runs.

Parts: shares, shares-idle, shares-ablated, shares-foreign, shares-theirs (a minute per run), slices-4, slices-10,
slices-weighted, slices-mixed, corun (four minutes; it goes on from runs/corun), corun-networks (20 minutes, or
``--set budget=SECONDS``; goes on as well).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.corun import measured
from benchmarks.sharing import shown as of_worlds
from benchmarks.table import Cell, Options, Table, table
from eunomia.metrics.statistics import interval
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.sharing.corun import Design
from eunomia.sharing.shares import ShareRules
from eunomia.study.sharing.corun import CoRuns, run_corun
from eunomia.study.sharing.slices_live import SliceStudy, run_live_slices
from eunomia.study.sharing.verify import Verified, VerifyStudy, parse_client, run_verify

SPLITS = {"30/70": "a=0.3 b=0.7", "20/30/50": "a=0.2 b=0.3 c=0.5", "10/20/30/40": "a=0.1 b=0.2 c=0.3 d=0.4"}
MIXED = ("short=0.5:stress compute 5", "long=0.5:stress compute 400")
IDLE = ("a=0.2", "b=0.3", "c=0.5:stress idle=20..40")
AWK = "awk 'BEGIN { while (1) { for (i = 0; i < 50000; i++) x += i; print ++n } }'"
NETWORK = "runs/mobilenet-v2.onnx"
FOREIGN = (f"awk=0.3:{AWK}", f"onnx=0.3:stress {NETWORK}", "memory=0.4:stress memory")
ENCODER, STRESSORS = "examples/models/encoder.onnx", ("compute", "cache", "bandwidth")
SLICES = {"slices-4": (1.0,) * 4, "slices-10": (1.0,) * 10, "slices-weighted": (1.0, 2.0, 3.0)}
SLICES["slices-mixed"] = (1.0,) * 4  # two of MobileNetV2, two of the encoder
QUANTA_S = (0.001, 0.002, 0.004, 0.008, 0.016)
NICE = (f"a=0.75:taskset -c 1 {AWK}", f"b=0.25:taskset -c 1 nice -n 5 {AWK}")  # weights 1024 and 335
COLUMNS = "run, client; promised|.0%; delivered|.1%; lowest window|.1%; highest window|.1%; of alone|.1%; processor|.1%"


def measure(options: Options) -> Iterator[Table]:
    """The parts that are wanted."""
    seconds = 10.0 if options.quick else 60.0
    Path(NETWORK).parent.mkdir(exist_ok=True)
    Path(NETWORK).write_bytes(mobilenet_v2())
    runs: dict[str, dict[str, VerifyStudy]] = {
        "shares": {
            f"{name}, {mode}": _study(words.split(), seconds, mode)
            for name, words in SPLITS.items()
            for mode in ("token", "system")
        },
        "shares-idle": {"20/30/50": _study(IDLE, seconds)},
        "shares-ablated": _ablations(seconds),
        "shares-theirs": {"nice 0 and 5": _study(NICE, seconds, "theirs")},
        "shares-foreign": {mode: _study(FOREIGN, seconds, mode) for mode in ("token", "system")},
    }
    for key in options.chosen(runs):
        found = {name: run_verify(study) for name, study in runs[key].items()}
        yield shown(key, found, by_phase=key == "shares-idle")
    for key, weights in SLICES.items():
        if options.wants(key):
            repeats = 1 if options.quick else 3
            beside = (Path(ENCODER),) if key == "slices-mixed" else ()
            study = SliceStudy(Path(NETWORK), weights, 40, QUANTA_S, repeats=repeats, beside=beside)
            yield of_worlds(key, {"measured": run_live_slices(study)})
    if options.wants("corun"):
        design = Design((*STRESSORS, NETWORK, ENCODER), budget_s=10.0 if options.quick else 200.0)
        yield co_runs(run_corun(design, Path("runs/corun")))
    if options.wants("corun-networks"):
        yield measured(options)


def co_runs(found: CoRuns) -> Table:
    """A row per case."""
    rows: list[list[Cell]] = [
        [f"{r['target']} beside {r['neighbours']}, {r['kind']}", one.wall, one.cpu, one.pairs, one.disturbed]
        for r, one in zip(found.rows(), found.found, strict=True)
    ]
    notes = [f"{line}." for line in [*found.footnotes(), *found.sentences()]]
    return table("corun", "case; slowdown|.3f; by processor time|.3f; pairs; disturbed", rows, notes)


def _study(clients: tuple[str, ...] | list[str], seconds: float, mode: str = "token") -> VerifyStudy:
    return VerifyStudy(tuple(map(parse_client, clients)), mode, seconds)


def _ablations(seconds: float) -> dict[str, VerifyStudy]:
    whole = _study(MIXED, seconds)
    rules = {"token": ShareRules(), "quotas do not adapt": ShareRules(adapts=False)}
    rules["overuse uncharged"] = ShareRules(charges_overuse=False)
    rules["neither"] = ShareRules(adapts=False, charges_overuse=False)
    return {name: replace(whole, rules=one) for name, one in rules.items()}


def shown(key: str, found: Mapping[str, Verified], by_phase: bool) -> Table:
    """A row per run and client, or per phase: all at work, and somebody idle."""
    rows: list[list[Cell]] = []
    for name, one in found.items():
        phases = {name: one.backlogged}
        if by_phase:
            phases = {f"{name}, all at work": one.backlogged, f"{name}, c idle": ~one.busy[:, -1]}
        for phase, chosen in phases.items():
            rows += [_row(one, n, f"{phase}: {c.spec.name}", chosen) for n, c in enumerate(one.study.clients)]
    notes = [f"* {name}: {'; '.join(one.sentences())}." for name, one in found.items()]
    notes.append(f"Load average at the end: {os.getloadavg()[0]:.1f}; other programs used the machine.")
    return table(key, COLUMNS, rows, notes)


def _row(one: Verified, n: int, name: str, chosen: object) -> list[Cell]:
    shares = one.delivered[chosen, n]
    used = [
        sum(row)
        for row in zip(*[row for row, c in zip(one.seen.cpu_s, chosen, strict=True) if c], strict=True)
    ]
    return [
        name, one.study.clients[n].spec.request, interval(shares), float(shares.min()), float(shares.max()),
        float(one.of_alone[chosen, n].mean()), used[n] / sum(used),
    ]  # fmt: skip
