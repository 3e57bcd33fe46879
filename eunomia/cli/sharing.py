"""``eunomia sharing``: mechanisms that share one device, each beside its baselines, in seeded simulation."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import note, print_json, say
from eunomia.cli.experiment import show

if TYPE_CHECKING:
    from eunomia.study.cluster.worlds import Worlds
    from eunomia.study.sharing.predict import Evidence

app = typer.Typer(help="Several tenants on one device, in simulation.", no_args_is_help=True)
Number = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")]
First = Annotated[int, typer.Option("--seed", min=0, help="First seed.")]


@app.command()
def queue(
    tables: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Seconds per network and batch, slowdown of pairs (TOML)."),
    ] = None,
    load: Annotated[float, typer.Option(help="1: full if every batch has its best size.")] = 0.7,
    arrivals: Annotated[str, typer.Option(help="poisson or bursts.")] = "bursts",
    tasks: Annotated[int, typer.Option(help="Tasks per seed.")] = 1000,
    seeds: Number = 5,
    seed: First = 0,
    as_json: opt.Json = False,
) -> None:
    """Irina's discipline (run, batch, stack, preempt, wait) beside max batch plus timeout."""
    from eunomia.study.sharing.queue import QueueStudy, run_queue

    study = QueueStudy(tables, load, arrivals, tasks, tuple(range(seed, seed + seeds)))
    _print(run_queue(study), as_json)


@app.command()
def slices(seeds: Number = 5, seed: First = 0, as_json: opt.Json = False) -> None:
    """Olympian's time slices: evenness of identical jobs, weights and overhead per quantum, gated and ungated."""
    from eunomia.study.sharing.slices import run_slices

    _print(run_slices(tuple(range(seed, seed + seeds))), as_json)


CoRuns = Annotated[
    Path, typer.Argument(metavar="TABLE.csv", help="target,neighbours,kind,slowdown; neighbours joined by +.")
]
Known = Annotated[
    Path | None,
    typer.Option(
        "--features", metavar="FILE", help="job and a column per feature (CSV), or a folder of ONNX files."
    ),
]


@app.command()
def predict(table: CoRuns, features: Known = None, seed: First = 0, as_json: opt.Json = False) -> None:
    """Errors of every interference predictor on jobs never seen, and how fast the online one learns."""
    from eunomia.sharing.interference.table import noise_floor
    from eunomia.study.sharing.predict import learn_online, leave_one_job_out

    evidence = _evidence(table, features)
    found, floor = (
        [leave_one_job_out(evidence), learn_online(evidence, seed=seed)],
        noise_floor(evidence.rows),
    )
    if as_json:
        print_json({"noise_floor": floor, "results": [one.as_table() for one in found]})
        return
    for one in found:
        show(one, True, {})
    say("noise floor: " + ("unknown, every co-run was measured once" if floor is None else f"{floor:.1%}"))


@app.command()
def misses(
    table: CoRuns,
    features: Known = None,
    load: Annotated[float, typer.Option(help="1: every server full with one application alone.")] = 1.0,
    slack: Annotated[float, typer.Option(help="Times its time alone that an application may take.")] = 1.5,
    seeds: Number = 5,
    seed: First = 0,
    as_json: opt.Json = False,
) -> None:
    """Slowdown misses, with waiting and without, by predictor of the server; half of the applications are unknown."""
    from eunomia.study.sharing.misses import MissStudy, run_misses

    study = MissStudy(load=load, slack=slack, seeds=tuple(range(seed, seed + seeds)))
    _print(run_misses(_evidence(table, features), study), as_json)


@app.command("misses-engine")
def misses_engine(
    table: CoRuns,
    features: Known = None,
    load: Annotated[float, typer.Option(help="Of one of two lanes, by each tenant.")] = 0.3,
    seeds: Number = 5,
    seed: First = 0,
    as_json: opt.Json = False,
) -> None:
    """Late requests in the engine, contention as measured, by predictor of the tenants' device; half are unknown."""
    from eunomia.study.sharing.misses_engine import EngineStudy, run_engine_misses

    study = EngineStudy(load=load, seeds=tuple(range(seed, seed + seeds)))
    _print(run_engine_misses(_evidence(table, features), study), as_json)


@app.command()
def harvest(
    series: Annotated[
        Path,
        typer.Argument(
            metavar="SERIES",
            help="CSV (wide or long), Alibaba, Azure, Prometheus JSON, DCGM or nvidia-smi CSV.",
        ),
    ],
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="WANTED=NAME", help="Columns of any long CSV: series=, time=, value=."),
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Grid of samples; their median distance if left out."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Kube-Knots' percentiles, correlations and AR(1) on your series: memory reclaimed against violations."""
    from eunomia.sharing.harvest.files import mapping_of, read
    from eunomia.study.sharing.harvest import run_forecasts, run_packing, run_room

    source = read(series, mapping_of(column or []), step)
    found = [run(source.series) for run in (run_forecasts, run_packing, run_room)]
    if as_json:
        print_json([one.as_table() for one in found])
        return
    if source.step_s == source.step_s:
        note(f"{len(source.series)} series, a sample each {source.step_s:g} s")
    for line in source.notes:
        note(line)
    for one in found:
        show(one, True, {})


@app.command()
def place(
    servers: Annotated[int, typer.Option(help="Servers, of ten kinds.")] = 1000,
    apps: Annotated[int, typer.Option(help="Applications; they arrive one by one and stay.")] = 2500,
    probes: Annotated[int, typer.Option(help="Scores of an application that are measured.")] = 2,
    seeds: Number = 2,
    seed: First = 0,
    as_json: opt.Json = False,
) -> None:
    """Paragon's two-step placement beside its rivals: share of applications that keep their speed."""
    from eunomia.study.sharing.place import PlaceStudy, run_place

    study = PlaceStudy(servers, apps, probes=probes, seeds=tuple(range(seed, seed + seeds)))
    _print(run_place(study), as_json)


def _evidence(table: Path, features: Path | None) -> Evidence:
    """What the two files say; a note where trees are left out."""
    import numpy as np

    from eunomia.sharing.interference.table import read_co_runs, read_features
    from eunomia.study.sharing.graphs import graph_features, networks_in, traffic
    from eunomia.study.sharing.predict import Evidence

    rows = read_co_runs(table)
    if features is not None and features.is_dir():
        vectors = graph_features(networks_in(features))
        use = traffic(vectors)
    else:
        known = read_features(features) if features else {}
        use = {job: of["utilisation"] for job, of in known.items() if "utilisation" in of}
        vectors = {job: np.array(list(of.values())) for job, of in known.items()}
    if features and not find_spec("sklearn"):
        note(
            "forest, unified and boosting are left out; they need scikit-learn: pip install 'eunomia[sharing]'"
        )
    return Evidence(rows, vectors or None, use or None)


def _print(result: Worlds, as_json: bool) -> None:
    if as_json:
        print_json(result.as_table())
    else:
        show(result, True, {})
