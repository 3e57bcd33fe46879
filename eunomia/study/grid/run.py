"""A study from file to results: stages of cells on any number of processes, kept, found again, put together."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from eunomia.config.study import GridConfig, Study, read_study
from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.core.errors import EunomiaError
from eunomia.core.records import write_comparison
from eunomia.engines.processes import HERE, Cell, Outcome, map_cells
from eunomia.engines.store import content_key
from eunomia.report.study.markdown import render_markdown
from eunomia.report.study.page import render_page
from eunomia.report.study.table import Limits, Row, StudyTable, Where
from eunomia.study.grid import plan
from eunomia.study.grid.load import check
from eunomia.study.grid.places import Place, base_settings
from eunomia.study.grid.plan import Known
from eunomia.study.grid.result import StudyResult
from eunomia.study.grid.tasks import run_task
from eunomia.study.place import CELLS, claim_as
from eunomia.study.run import provenance

STAGES = (plan.first_stage, plan.second_stage, plan.third_stage, plan.fourth_stage, plan.fifth_stage)
GROUND = STAGES[:2]  # without which nothing else can be done


def run_study(
    study: Study | str | Path,
    directory: str | Path | None = None,
    workers: int = 1,
    on_done: Callable[[Outcome], None] | None = None,
    overwrite: bool = False,
    on: str = HERE,
) -> StudyResult:
    """Run whatever of a study (or of its file) is not finished yet, and write the results to ``directory``.

    Finished cells are kept there at once and found again by the next call, whatever stopped this one. The
    results depend neither on ``workers`` and ``on`` (``processes``, or a Ray cluster: engines/ray_cluster.py) nor on
    interruptions; only ``timings`` do. Raises ConfigError for unknown names, EunomiaError when a capacity or a
    calibration fails, Interrupted on Ctrl-C.
    """
    study = study if isinstance(study, Study) else read_study(study)
    check(study)
    root = Path(directory) if directory is not None else None
    if root is not None:
        claim_as(root, "study", content_key([study.name]), overwrite)
    known, failures = Known({}), {}
    for stage in STAGES:
        alone = stage is plan.fifth_stage  # timings are taken one at a time, or they would measure each other
        outcomes = _run(
            stage(study, known), known, 1 if alone else workers, on_done, root, HERE if alone else on
        )
        failed = {o.cell.name: o.failure for o in outcomes if o.failure is not None}
        if failed and stage in GROUND:
            raise EunomiaError("\n".join(f"{name}: {why}" for name, why in failed.items()))
        failures.update(failed)
    result = StudyResult(study, table_of(study, known), _timings(study, known), failures, root)
    if not result.found.rows:
        raise EunomiaError(next(iter(failures.values())))
    if root is not None:
        write_study(result, root)
    return result


def _run(
    cells: list[Cell],
    known: Known,
    workers: int,
    on_done: Callable[[Outcome], None] | None,
    root: Path | None,
    on: str,
) -> list[Outcome]:
    """Each distinct cell once, in an order that mixes long and short ones, so that the estimated end is one."""
    distinct = {cell.key: cell for cell in cells if cell.key not in known.answers}
    ordered = [distinct[key] for key in sorted(distinct)]
    outcomes = map_cells(ordered, run_task, workers, on_done, root / CELLS if root else None, on)
    known.answers.update({o.cell.key: o.result for o in outcomes if o.result is not None})
    if on_done is not None:
        for _ in range(len(cells) - len(distinct)):  # equal ones, done with the first of them
            on_done(Outcome(cells[-1], {}, reused=True))
    return outcomes


# --- from answers to a table --------------------------------------------------------------------------


def table_of(study: Study, known: Known) -> StudyTable:
    """Everything measured, in the order of the file."""
    rows, limits = [], []
    for grid, place in plan.all_places(study):
        where = _where(study, place, known)
        here = [
            row for name in plan.rows_of(study, grid) if (row := _row(study, grid, place, where, name, known))
        ]
        rows += here
        answer = known.get(plan.bracket_task_of(study, place, known)) if grid.bracket else None
        if answer is not None:
            hits = [answer["found"], *(row.hits for row in here if row.hits)]  # a policy may beat the search
            found = tuple(max(window) for window in zip(*hits, strict=True))
            limits.append(Limits(where, found, tuple(answer["bound"]), tuple(answer["total"])))
    claim = study.claim
    return StudyTable(
        study.name, study.description, study.reading, tuple(study.rows),
        {rival.name: tuple(rival.members) for rival in study.rival}, tuple(grid.name for grid in study.grid),
        tuple(rows), tuple(limits), claim.champion if claim else None, tuple(claim.rivals) if claim else (),
        tuple(claim.grids or ()) if claim else (), _facts(study, known),
    )  # fmt: skip


def _where(study: Study, place: Place, known: Known) -> Where:
    task = plan.capacity_tasks(study, place.workload, place.settings)[0]
    return Where(
        place.grid, place.workload, place.qos, place.load, known.of(task)["bandwidth_gb_s"], place.variation
    )


def _row(study: Study, grid: GridConfig, place: Place, where: Where, name: str, known: Known) -> Row | None:
    policy = plan.policy_of(study, place, name, known)
    answer = known.get(plan.run_task_of(study, grid, place, policy, known)) if policy is not None else None
    if policy is None or answer is None:
        return None
    runs = answer["runs"]
    metrics = {key: tuple(_number(run["metrics"][key]) for run in runs) for key in runs[0]["metrics"]}
    tenants = {key: tuple(_number(run["tenants"].get(key)) for run in runs) for key in runs[0]["tenants"]}
    return Row(where, name, policy, metrics, tenants, tuple(answer["hits"]))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _facts(study: Study, known: Known) -> Data:
    """What a reader must know beside the study file: capacities, alpha, isolated times."""
    found: Data = {}
    for _, place in plan.all_places(study):
        answers = [known.of(task) for task in plan.capacity_tasks(study, place.workload, place.settings)]
        label = f"{place.workload}, {answers[0]['bandwidth_gb_s']:g} GB/s"
        if (place.settings["platform"], place.settings["costs"]) == _usual(study, place):
            found.setdefault(
                label, {key: answers[0][key] for key in ("mean", "low", "high", "layer_s", "iso_s")}
            )
    alphas = {
        name: {"alpha": study.deadlines.alpha, "hit_rate": None} if study.deadlines.alpha is not None
        else known.of(plan.alpha_task(study, name, known))
        for name in plan.workloads(study)
    }  # fmt: skip
    return {
        "capacity_per_s": found,
        "alpha": alphas,
        "config": study.model_dump(mode="json", exclude_none=True),
    }


def _usual(study: Study, place: Place) -> tuple[Data, Data]:
    settings = base_settings(study, place.bandwidth_gb_s)
    return settings["platform"], settings["costs"]


def _timings(study: Study, known: Known) -> dict[str, Data]:
    """Time to decide of every row of the first grid."""
    found = {}
    place = plan.timing_place(study)
    for row in plan.rows_of(study, study.grid[0]) if study.decision_repeats else []:
        policy = plan.policy_of(study, place, row, known)
        answer = known.get(plan.timing_task_of(study, policy, known)) if policy is not None else None
        if answer is not None:
            found[row] = answer
    return found


# --- files --------------------------------------------------------------------------------------------


def write_study(result: StudyResult, root: Path) -> None:
    """``study.json``, ``study.csv``, ``report.html``, ``results.md``: the same bytes for equal results.

    ``timings.json`` and the manifest are apart, as they tell of one machine on one day.
    """
    table = result.found
    write_text(root / "study.json", json.dumps(_finite(asdict(table)), indent=1, allow_nan=False) + "\n")
    write_text(root / "study.csv", _csv(table))
    write_text(root / "results.md", render_markdown(table))
    write_text(root / "report.html", render_page(table))
    write_text(root / "timings.json", json.dumps(_finite(result.timings), indent=1, allow_nan=False) + "\n")
    manifest = {
        "name": table.name,
        "kind": "study",
        "policies": list(table.policies),
        "failures": result.failures,
        "config": table.facts["config"],
        **provenance(),
    }
    write_comparison(root, manifest)


def _csv(table: StudyTable) -> str:
    """One line per place, policy and replication."""
    names = list(dict.fromkeys(name for row in table.rows for name in row.metrics))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [
        "grid",
        "workload",
        "qos",
        "load",
        "bandwidth_gb_s",
        "variation",
        "policy",
        "ran",
        "replication",
    ]
    writer.writerow([*columns, *names])
    for row in table.rows:
        w = row.where
        for index in range(len(row.metrics["hit_rate"])):
            values = [_digits(row.metrics[name][index]) for name in names]
            place = [w.grid, w.workload, w.qos, f"{w.load:g}", f"{w.bandwidth_gb_s:g}", w.variation]
            writer.writerow([*place, row.policy, row.ran, index, *values])
    return text.getvalue()


def _digits(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
