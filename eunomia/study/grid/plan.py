"""What there is to do for a study, stage by stage: each stage needs the answers of those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from eunomia.config.study import GridConfig, RivalConfig, Study
from eunomia.core.data import Data
from eunomia.engines.processes import Cell
from eunomia.engines.store import content_key
from eunomia.study.files import content_hash, file_stamps, program_hash
from eunomia.study.grid.places import Place, base_settings, places_of
from eunomia.study.grid.tasks import (
    AlphaTask,
    BracketTask,
    CapacityTask,
    ChoiceTask,
    RunTask,
    Spot,
    Task,
    TimingTask,
)  # fmt: skip

Answer = Data
NO_PART = ("cli", "cluster", "data", "report", "serving")  # packages that play no part in an answer


@dataclass(frozen=True)
class Known:
    """Answers so far, each by the key of its cell."""

    answers: dict[str, Answer]

    def get(self, task: Task) -> Answer | None:
        """The answer to a task; None where it failed."""
        return self.answers.get(key_of(task))

    def of(self, task: Task) -> Answer:
        """The answer to a task that cannot be missing."""
        return self.answers[key_of(task)]


def key_of(task: Task) -> str:
    """Hash of all that decides a task's answer, the program's sources and named files included."""
    content = asdict(task)
    policies = [content.get("policy") or "", *content.get("members", ())]
    files = [content_hash(name.rpartition(":")[0]) for name in policies]
    return content_key(
        [
            type(task).__name__,
            content,
            program_hash(NO_PART),
            file_stamps(content),
            [stamp for stamp in files if stamp],
        ]
    )


def cell_of(name: str, task: Task) -> Cell:
    """A task with a name for people."""
    return Cell(key_of(task), name, task)


def all_places(study: Study) -> list[tuple[GridConfig, Place]]:
    """Every place of every grid, in the order of the file."""
    return [(grid, place) for grid in study.grid for place in places_of(study, grid)]


def rows_of(study: Study, grid: GridConfig) -> list[str]:
    """Policies and rivals that run on a grid, in the study's order."""
    return [name for name in study.rows if grid.policies is None or name in grid.policies]


def rival_of(study: Study, row: str) -> RivalConfig | None:
    """The rival of that name; None for a policy."""
    return next((rival for rival in study.rival if rival.name == row), None)


# --- stage 1: capacities ------------------------------------------------------------------------------


def capacity_tasks(study: Study, workload: str, settings: Answer) -> list[CapacityTask]:
    """One per cost table of a place; the engine's settings play no part in a capacity."""
    draws: Sequence[int | None] = [None]
    if settings["costs"]["perturbation"] > 0.0:
        draws = range(study.replications)
    wanted = {name: settings[name] for name in ("platform", "costs", "workload")}
    return [CapacityTask(workload, wanted, draw) for draw in draws]


def first_stage(study: Study, known: Known) -> list[Cell]:
    """Capacities of all places, and of the base where deadlines are calibrated."""
    wanted = [
        (place.workload, settings)
        for _, place in all_places(study)
        for settings in (place.settings, base_settings(study, place.bandwidth_gb_s))
    ]
    wanted += [(workload, _exact(study)) for workload in workloads(study)]
    return [
        cell_of(f"capacity of {workload}", task)
        for workload, settings in wanted
        for task in capacity_tasks(study, workload, settings)
    ]


def workloads(study: Study) -> list[str]:
    """Sets of all grids, each once."""
    return list(dict.fromkeys(name for grid in study.grid for name in grid.sets))


# --- stage 2: deadlines -------------------------------------------------------------------------------


def alpha_task(study: Study, workload: str, known: Known) -> AlphaTask:
    """The calibration of a set, at the study's own settings."""
    settings, want = _exact(study), study.deadlines
    (capacity,) = capacity_tasks(study, workload, settings)
    per_s = known.of(capacity)["mean"]
    return AlphaTask(workload, settings, per_s, want.policy, want.load, want.hit_rate, want.requests)


def _exact(study: Study) -> Answer:
    """The study's own settings with the costs as they are."""
    return {**base_settings(study), "costs": {"perturbation": 0.0}}


def second_stage(study: Study, known: Known) -> list[Cell]:
    """Calibrations, unless alpha is given."""
    if study.deadlines.alpha is not None:
        return []
    return [cell_of(f"deadlines of {name}", alpha_task(study, name, known)) for name in workloads(study)]


def spot_of(study: Study, place: Place, known: Known) -> Spot:
    """A place with its capacity and alpha."""
    alpha = study.deadlines.alpha
    if alpha is None:
        alpha = known.of(alpha_task(study, place.workload, known))["alpha"]
    capacities = [known.of(task)["mean"] for task in capacity_tasks(study, place.workload, place.settings)]
    return Spot(place.workload, place.qos, place.load, place.settings, alpha, tuple(capacities))  # type: ignore[arg-type]


# --- stage 3: choices ---------------------------------------------------------------------------------


def choice_task(study: Study, place: Place, rival: RivalConfig, known: Known) -> ChoiceTask:
    """The choice of a rival for a place: made under the study's own settings, at the place's bandwidth.

    A variation does not choose anew: it tests whether the conclusion survives.
    """
    settings = base_settings(study, place.bandwidth_gb_s)
    base = Place(place.grid, place.workload, place.qos, place.load, place.bandwidth_gb_s, "", settings, 0)
    want = study.validation
    return ChoiceTask(
        spot_of(study, base, known),
        tuple(rival.members),
        want.traces,
        want.requests,
        rival.objective or want.objective,
        seeds_of(study),
    )


def third_stage(study: Study, known: Known) -> list[Cell]:
    """Choices of every rival wherever it runs."""
    return [
        cell_of(
            f"choosing {row} for {place.workload} at load {place.load:g}",
            choice_task(study, place, rival, known),
        )
        for grid, place in all_places(study)
        for row in rows_of(study, grid)
        if (rival := rival_of(study, row)) is not None
    ]


def seeds_of(study: Study) -> tuple[int, ...]:
    """Seeds of the replications."""
    return tuple(range(study.seed, study.seed + study.replications))


# --- stage 4: runs and brackets -----------------------------------------------------------------------


def policy_of(study: Study, place: Place, row: str, known: Known) -> str | None:
    """What runs in a row: the policy itself, or what was chosen; None where choosing failed."""
    rival = rival_of(study, row)
    if rival is None:
        return row
    answer = known.get(choice_task(study, place, rival, known))
    return None if answer is None else str(answer["name"])


def run_task_of(study: Study, grid: GridConfig, place: Place, policy: str, known: Known) -> RunTask:
    """All replications of one policy at one place."""
    windows = study.bracket.windows if grid.bracket else 0
    return RunTask(
        spot_of(study, place, known), policy, seeds_of(study), place.requests,
        min(study.warmup_requests, place.requests // 2), study.margin, windows,
        study.bracket.requests if windows else 0,
    )  # fmt: skip


def bracket_task_of(study: Study, place: Place, known: Known) -> BracketTask:
    """The bracket of a place."""
    want = study.bracket
    spot = spot_of(study, place, known)
    return BracketTask(spot, want.windows, want.requests, want.evaluations, want.intervals, want.segments)


def fourth_stage(study: Study, known: Known) -> list[Cell]:
    """Every policy at every place, and the brackets."""
    cells = []
    for grid, place in all_places(study):
        where = f"{place.workload} QoS-{place.qos.upper()} load {place.load:g} {place.variation}".rstrip()
        for row in rows_of(study, grid):
            policy = policy_of(study, place, row, known)
            if policy is not None:
                cells.append(cell_of(f"{policy}, {where}", run_task_of(study, grid, place, policy, known)))
        if grid.bracket:
            cells.append(cell_of(f"bracket, {where}", bracket_task_of(study, place, known)))
    return cells


# --- stage 5: timing ----------------------------------------------------------------------------------


def timing_place(study: Study) -> Place:
    """Where decisions are timed: the first grid's last set, QoS in the middle, the load nearest to 1."""
    places = places_of(study, study.grid[0])
    last = [place for place in places if place.workload == study.grid[0].sets[-1]]
    levels = [place for place in last if place.qos == "m"] or last
    return min(levels, key=lambda place: abs(place.load - 1.0))


def timing_task_of(study: Study, policy: str, known: Known) -> TimingTask:
    """The timing of one policy."""
    spot = spot_of(study, timing_place(study), known)
    return TimingTask(spot, policy, study.seed, min(2000, study.requests), study.decision_repeats)


def fifth_stage(study: Study, known: Known) -> list[Cell]:
    """Timings of every policy of the first grid."""
    if not study.decision_repeats:
        return []
    place = timing_place(study)
    names = [policy_of(study, place, row, known) for row in rows_of(study, study.grid[0])]
    return [
        cell_of(f"timing {name}", timing_task_of(study, name, known)) for name in names if name is not None
    ]


def total(study: Study) -> dict[str, int]:
    """Number of pieces of work by kind, before equal ones are joined."""
    places = all_places(study)
    runs = [(grid, place, row) for grid, place in places for row in rows_of(study, grid)]
    return {
        "capacities": len(first_stage(study, Known({}))),
        "calibrations": 0 if study.deadlines.alpha is not None else len(workloads(study)),
        "choices": sum(rival_of(study, row) is not None for _, _, row in runs),
        "runs": len(runs),
        "brackets": sum(grid.bracket for grid, _ in places),
        "timings": len(rows_of(study, study.grid[0])) if study.decision_repeats else 0,
    }
