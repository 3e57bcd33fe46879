"""Twelve real networks side by side on this machine's processor: what is measured of them, and what is known of them.

Ten files of torchvision and timm (``benchmarks/networks``), for which weights are drawn here, MobileNetV2 as the
package builds it, and the encoder of the examples. Every co-run is measured twice, so that the noise is known.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import page
from benchmarks.table import Cell, Options, Table, table
from eunomia.metrics.statistics import Estimate, interval
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.sharing.corun import Design
from eunomia.sharing.corun.design import Block, Case, cases_of, log_ratios
from eunomia.sharing.corun.store import Store
from eunomia.sharing.interference import CoRun
from eunomia.sharing.interference.table import noise_floor, read_co_runs
from eunomia.study.cluster.worlds import Worlds
from eunomia.study.sharing.corun import run_corun
from eunomia.study.sharing.graphs import graph_features, traffic
from eunomia.study.sharing.predict import Evidence, errors_of, learn_online

SHAPES, FILLED = page.ROOT / "benchmarks" / "networks", Path("runs") / "networks"
ENCODER = "examples/models/encoder.onnx"
SLOW = "tv-resnext50-32x4d"  # one inference fills a block
NAMES = ("mobilenet-v2", *sorted(path.stem for path in SHAPES.glob("*.onnx") if path.stem != SLOW))
IN_THREES = (0, 2, 5, 8, 9, 11)
DATA = page.RESULTS / "data" / "corun-networks.csv"


def fill(name: str) -> str:
    """The file of a network with weights: drawn, as times do not depend on them."""
    import onnx

    target = FILLED / f"{name}.onnx"
    if target.exists():
        return str(target)
    FILLED.mkdir(parents=True, exist_ok=True)
    if not (source := SHAPES / target.name).exists():
        target.write_bytes(mobilenet_v2())
        return str(target)
    model, rng = onnx.load(source, load_external_data=False), np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            drawn = rng.standard_normal(list(tensor.dims)) * 0.05
            drawn = np.abs(drawn) + 1.0 if "var" in tensor.name else drawn
            tensor.CopyFrom(onnx.numpy_helper.from_array(drawn.astype(np.float32), tensor.name))
    onnx.save(model, target)
    return str(target)


def designs(budget_s: float) -> dict[str, Design]:
    """Pairs on both kinds of place, triples on one core, by their folder."""
    clients = (*map(fill, NAMES), ENCODER)
    few = tuple(clients[n] for n in IN_THREES)
    return {
        "corun-12": Design(clients, budget_s=0.7 * budget_s),
        "corun-triples": Design(few, ("same core",), (2,), budget_s=0.3 * budget_s),
    }


def measured(options: Options) -> Table:
    """Goes on with runs/corun-12 and runs/corun-triples; a row per place and number of neighbours."""
    budget_s = 8.0 if options.quick else float(options.given.get("budget", 1100.0))
    rows: list[list[Cell]] = []
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["target", "neighbours", "kind", "slowdown", "cpu_slowdown"])
    for folder, design in designs(budget_s).items():
        run_corun(design, Path("runs") / folder)
        store = Store(Path("runs") / folder, design)
        store.read()
        for place in design.places:
            mine = {
                c: store.blocks[c.key] for c in cases_of(design) if c.place == place and c.key in store.blocks
            }
            halves = [(case, half) for case, blocks in mine.items() for half in _halves(blocks, design.lost)]
            for case, (wall, cpu) in halves:
                beside = "+".join(Path(n).stem for n in case.neighbours)
                lines.writerow([Path(case.target).stem, beside, place, f"{wall:.4f}", f"{cpu:.4f}"])
            rows.append(_row(f"{1 + design.degrees[0]} on {place}", mine, halves, design.lost))
    columns = (
        "networks; cases; by the clock: middle|.3f; by processor time: middle|.3f; of nine in ten below|.3f; most|.3f; "
        "measured again|.1%; blocks that others disturbed|.0%"
    )
    found = table("corun-networks", columns, rows)
    files = {} if options.quick else {str(DATA.relative_to(page.ROOT)): text.getvalue()}
    return replace(found, files=files)


def _halves(blocks: Sequence[Block], lost: float) -> list[tuple[float, float]]:
    """Slowdown by the clock and by processor time of the first and of the second half of the blocks."""
    middle = len(blocks) // 4 * 2
    parts = [part for part in (blocks[:middle], blocks[middle:]) if part]
    logs = [(log_ratios(part, lost)[0], log_ratios(part, lost, by_cpu=True)[0]) for part in parts]
    return [(math.exp(np.mean(wall)), math.exp(np.mean(cpu))) for wall, cpu in logs if wall and cpu]


def _row(
    name: str, mine: dict[Case, list[Block]], halves: Sequence[tuple[Case, tuple[float, float]]], lost: float
) -> list[Cell]:
    wall, cpu = (np.array([half[n] for _, half in halves]) for n in (0, 1))
    again = noise_floor([CoRun(c.target, c.neighbours, c.place, half[1]) for c, half in halves])
    disturbed = np.mean([block.lost > lost for blocks in mine.values() for block in blocks])
    middle, high, most = (float(np.quantile(cpu, q)) for q in (0.5, 0.9, 1.0))
    return [name, len(mine), float(np.median(wall)), middle, high, most, again, float(disturbed)]


def evidence(column: str = "cpu_slowdown") -> Evidence:
    """The measured table, and what the files tell."""
    known = graph_features([*(Path(fill(name)) for name in NAMES), Path(ENCODER)])
    return Evidence(read_co_runs(DATA, column), known, traffic(known))


def on_one_core() -> Evidence:
    """Pairs of which each gets half of the time, slowed by what processor time says."""
    known = evidence()
    pairs = [row for row in known.rows if row.kind == "same core" and len(row.neighbours) == 1]
    return replace(known, rows=[replace(row, slowdown=2.0 * row.slowdown) for row in pairs])


def learned() -> Worlds:
    """Pairs on one core, both measurements in one, so that no pair is both shown and asked."""
    known = evidence()
    logs: dict[tuple[str, str], list[float]] = {}
    for row in known.rows:
        if row.kind == "same core" and len(row.neighbours) == 1:
            logs.setdefault((row.target, row.neighbours[0]), []).append(math.log(row.slowdown))
    rows = [CoRun(a, (b,), "same core", math.exp(np.mean(both))) for (a, b), both in logs.items()]
    return learn_online(replace(known, rows=rows))


def splits(rows: Sequence[CoRun]) -> dict[str, list[tuple[list[CoRun], list[CoRun]]]]:
    """Ways of not having seen: (known, asked) of each fold. Networks: each in turn, as target and as neighbour."""
    here = [row for row in rows if row.kind == "same core"]
    pairs = [row for row in here if len(row.neighbours) == 1]
    names = sorted({row.target for row in rows})
    return {
        "network": [
            (
                [r for r in pairs if name not in (r.target, *r.neighbours)],
                [r for r in pairs if r.target == name],
            )
            for name in names
        ],
        "degree": [
            (pairs, [r for r in here if len(r.neighbours) == 2 and r.target == name])
            for name in sorted({r.target for r in here if len(r.neighbours) == 2})
        ],
        "kind": [
            ([r for r in rows if r.kind == "own core"], [r for r in pairs if r.target == name])
            for name in names
        ],
    }


def predicted() -> Table:
    """Error for an unseen network, for triples after pairs, and for one core after two; each by target."""
    known = evidence()
    rows: list[list[Cell]] = []
    for name in known.back_ends():
        cells: list[Cell] = [name]
        for folds in splits(known.rows).values():
            found: list[float] = []
            for seen, asked in folds:
                found.append(errors_of(known.fitted(name, seen), asked)["error"])
            cells.append(interval(found))
        rows.append(cells)
    rows.append(["measured again (noise)", *(_again(folds) for folds in splits(known.rows).values())])
    return table(
        "predict-own", "back end; unseen network|.1%; triples after pairs|.1%; one core after two|.1%", rows
    )


def _again(folds: Sequence[tuple[list[CoRun], list[CoRun]]]) -> Estimate:
    return interval([floor for _, asked in folds if (floor := noise_floor(asked)) is not None])
