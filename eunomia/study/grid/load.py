"""Study files read and checked: every name in them is known before the first run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from eunomia.config.study import Study, read_study
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.study.grid.places import places_of
from eunomia.study.inference.policy import resolve_policy
from eunomia.study.inference.tuning import objective_of
from eunomia.workload.sets import workload_set


def load_study(path: str | Path, overrides: Iterable[str] = ()) -> Study:
    """Read a study file (TOML) and check it. ``overrides``: ``a.b=c`` texts. Raises ConfigError."""
    study = read_study(path, overrides)
    check(study)
    return study


def check(study: Study) -> None:
    """Raise for unknown names of policies, sets, objectives and varied keys."""
    for policy in (*study.policies, study.deadlines.policy):
        resolve_policy(policy)
    for rival in study.rival:
        for member in rival.members:
            resolve_policy(member)
        objective_of(rival.objective or study.validation.objective)
    objective_of(study.validation.objective)
    for grid in study.grid:
        for name in grid.sets:
            workload_set(name)
        _check_rows(grid.policies or [], study, f" of grid '{grid.name}'")
        places_of(study, grid)  # raises for a varied key or value that the study does not have
    if study.claim is not None:
        _check_rows([study.claim.champion, *study.claim.rivals], study, " of the claim")
        known = [grid.name for grid in study.grid]
        for name in study.claim.grids or []:
            if name not in known:
                raise UnknownNameError("grid", name, known, " of the claim")
    if study.engine.charge_measured:
        raise ConfigError(
            "engine.charge_measured makes results depend on the machine, and those of a study must not; "
            "charge a fixed engine.decision_s instead"
        )


def _check_rows(names: Iterable[str], study: Study, where: str) -> None:
    for name in names:
        if name not in study.rows:
            raise UnknownNameError("policy", name, study.rows, where)
