"""Several tenants on one device, simulated: queue discipline, interference prediction, placement.

Parts: shares, slices, queue, queue-optimum, predict, predict-online, predict-own, misses, misses-engine,
misses-engine-cpu, harvest, harvest-room, place, place-measured. Seeds from 0 on; verbs of ``eunomia sharing``.
``harvest-theirs``: the back-test on any files, ``--set "Alibaba, 5 min"=FILE`` and others, 32 series of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks import page
from benchmarks.cluster.colocation import Measured
from benchmarks.cluster.scenes import KINDS
from benchmarks.corun import learned, on_one_core, predicted
from benchmarks.table import Options, Table, table
from eunomia.core.arrays import Floats
from eunomia.sharing.harvest.files import read
from eunomia.study.cluster.worlds import Worlds
from eunomia.study.sharing.harvest import run_forecasts, run_packing, run_room
from eunomia.study.sharing.misses import run_misses
from eunomia.study.sharing.misses_engine import EngineStudy, run_engine_misses
from eunomia.study.sharing.place import PlaceStudy, run_place
from eunomia.study.sharing.place_measured import run_measured_place
from eunomia.study.sharing.predict import Evidence, learn_online, leave_one_job_out
from eunomia.study.sharing.queue import QueueStudy, run_gaps, run_queue
from eunomia.study.sharing.shares import run_shares
from eunomia.study.sharing.slices import run_slices

FORMATS = {"share": ".1%", "s": ".4f", "ratio": ".3f"}


def measure(options: Options) -> Iterator[Table]:
    """The parts that are wanted."""
    seeds = tuple(options.seeds_or(5))
    for key, simulated in {"shares": run_shares, "slices": run_slices}.items():
        if options.wants(key):
            yield shown(key, {"simulated": simulated(seeds)})
    if options.wants("queue"):
        cells = [("poisson", 0.5), ("poisson", 0.9), ("bursts", 0.3), ("bursts", 0.6), ("bursts", 0.9)]
        found = {f"{a} {x:g}": run_queue(QueueStudy(None, x, a, 1000, seeds)) for a, x in cells}
        yield shown("queue", found)
    if options.wants("queue-optimum"):
        many = tuple(range(1 if options.quick else 40))
        cases = {"at once": run_gaps(many, True), "within 20 ms": run_gaps(many[:8], False)}
        yield shown("queue-optimum", cases)
    tests = {"predict": leave_one_job_out, "predict-online": learn_online, "misses": run_misses}
    for key in options.chosen(tests):
        of, run = Measured(), tests[key]
        yield shown(key, {"unseen job type": run(Evidence(of.rows, of.features(), of.use, of.kinds()))})
    if options.wants("predict-own"):
        yield predicted()
        yield shown("predict-own-online", {"unseen network": learned()})
    for key in options.chosen(("misses-engine", "misses-engine-cpu")):
        of, loads = Measured(), (0.2, 0.3)
        evidence = Evidence(of.rows, of.features(), of.use, of.kinds())
        if key == "misses-engine-cpu":  # one core for both, half its time each
            evidence, loads = on_one_core(), (0.1, 0.2)
        found = {f"load {x:g}": run_engine_misses(evidence, EngineStudy(load=x, seeds=seeds)) for x in loads}
        yield shown(key, found)
    if options.wants("harvest"):
        known = {"Azure, 10 s": azure_series(), "Philly, 1 h": philly_series()}
        yield shown("harvest", {name: run_forecasts(series) for name, series in known.items()})
        yield shown("harvest-packing", {name: run_packing(series) for name, series in known.items()})
    if options.given and options.wants("harvest-theirs"):
        given = dict(options.given)
        step_s = float(given.pop("step", 300.0))
        files = {name: read(Path(file), step_s=step_s).series for name, file in given.items()}
        known = {name: {n: one[n] for n in list(one)[:32]} for name, one in files.items()}
        for key, run in {"": run_forecasts, "-room": run_room, "-packing": run_packing}.items():
            yield shown(f"harvest-theirs{key}", {name: run(series) for name, series in known.items()})
    if options.wants("harvest-room"):
        yield shown("harvest-room", {f"Azure, {s:g} s": run_room(azure_series(s)) for s in (1.0, 10.0)})
    if options.wants("place-measured"):
        of = Measured()
        alone = {
            n: dict(zip(KINDS, row, strict=True)) for n, row in zip(of.names, of.alone.tolist(), strict=True)
        }
        yield shown("place-measured", {"GPUs, 2 probes": run_measured_place(of.rows, alone)})
    if options.wants("place"):
        study = PlaceStudy(*((100, 250) if options.quick else (1000, 2500)), seeds=tuple(options.seeds_or(2)))
        yield shown("place", {"2 probes": run_place(study)})


def azure_series(step_s: float = 10.0, pods: int = 8) -> dict[str, Floats]:
    """Tokens held per pod: requests of Azure's two services, dealt to pods in turn, 20 ms per generated token."""
    found = {}
    for service in ("code", "conv"):
        path = page.shared() / "traces" / f"azure_llm_2023_{service}.csv"
        rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
        at_s = np.array([row[0][:23] for row in rows], "datetime64[ms]").astype(float) / 1e3
        held = np.array([row[1:] for row in rows], float)
        for pod in range(pods):
            mine = slice(pod, None, pods)
            ends = at_s[mine] + 0.02 * held[mine, 1]
            times = np.arange(at_s[0], at_s[-1], step_s)[:, None]
            alive = (at_s[mine] <= times) & (times < ends)
            found[f"{service}-{pod}"] = np.asarray(alive @ held[mine].sum(axis=1))
    return found


def philly_series(step_s: float = 3600.0) -> dict[str, Floats]:
    """GPUs in use per virtual cluster of Philly, each hour; a job is taken to start when it was submitted."""
    text = (page.shared() / "traces" / "philly_reduced.csv").read_text()
    rows = [line.split(",") for line in text.splitlines()[1:] if line]
    at_s = np.array([row[0] for row in rows], "datetime64[s]").astype(float)
    lasts_s, gpus = (np.array([row[n] for row in rows], float) for n in (1, 2))
    edges = np.arange(at_s.min(), at_s.max(), step_s)
    found = {}
    for cluster in sorted({row[4] for row in rows}):
        mine = np.array([row[4] == cluster for row in rows])
        begun = np.histogram(at_s[mine], [*edges, np.inf], weights=gpus[mine])[0]
        over = np.histogram(at_s[mine] + lasts_s[mine], [*edges, np.inf], weights=gpus[mine])[0]
        found[cluster] = np.maximum(np.cumsum(begun - over), 0.0)
    return found


def shown(key: str, cells: Mapping[str, Worlds]) -> Table:
    """A row per cell and method: means over seeds, headline over the cell's first method."""
    one = next(iter(cells.values()))
    headings = [
        f"{m.heading}{', s' * (m.unit == 's')}|{FORMATS.get(m.unit, '.2f')}" for m in one.metrics.values()
    ]
    columns = "; ".join(
        ["cell, method", *headings, f"{one.metrics[one.headline].heading} / first of cell|.3f"]
    )
    rows = [
        [f"{cell}: {name}", *(found.estimate(name, f) for f in found.metrics), found.against_first(name)]
        for cell, found in cells.items()
        for name in found.methods
    ]
    return table(key, columns, rows)
