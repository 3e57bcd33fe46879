"""A plan from its file to its answer: screen, search, prove, compare with rivals, find the limits."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path

from eunomia.config.plan import PlanConfig, load_plan, plan_from
from eunomia.core.atomic import write_bytes, write_text
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, within
from eunomia.core.records import write_comparison
from eunomia.report.sweep import render_sweep
from eunomia.study.inference.policy import resolve_policy
from eunomia.study.place import CELLS, claim_as, key_of
from eunomia.study.plan.answer import Answer, work_of
from eunomia.study.plan.catalogue import catalogue
from eunomia.study.plan.crew import OnTrials, Trials
from eunomia.study.plan.ground import ground, plan_table
from eunomia.study.plan.headroom import most_traffic
from eunomia.study.plan.page import plan_page
from eunomia.study.plan.prices import check_prices
from eunomia.study.plan.result import PlanResult
from eunomia.study.plan.rivals import greedy, one_type
from eunomia.study.plan.search import Search
from eunomia.study.plan.stress import cost_limit, fronts, neighbours, traffic_limit
from eunomia.study.plan.targets import score_of
from eunomia.study.plan.untested import judged
from eunomia.study.run import provenance


def _checked(given: PlanConfig | str | Path | Data, overrides: Iterable[str]) -> PlanConfig:
    """A plan from itself, a file or a dictionary. Raises ConfigError."""
    if isinstance(given, str | Path):
        return load_plan(given, overrides)
    if isinstance(given, PlanConfig):  # a price that was not given stays so
        entries = given.model_dump(
            mode="json", exclude_none=True, exclude_unset=True, include={"device", "memory"}
        )
        given = {**_table(given), **entries}
    return plan_from(given, overrides)


def _table(plan: PlanConfig) -> Data:
    table: Data = plan.model_dump(mode="json", exclude_none=True)
    return table


def plan(
    given: PlanConfig | str | Path | Data,
    overrides: Iterable[str] = (),
    *,
    directory: str | Path | None = None,
    workers: int = 1,
    overwrite: bool = False,
    on_done: OnTrials | None = None,
    rivals: bool = True,
) -> PlanResult:
    """The platform of the catalogue that keeps the promises at the least of the target.

    ``directory``: results go there, finished trials at once, so that a stopped call goes on. Prices, bounds, target and
    the settings of the search may change between calls. ``workers``: processes; the answer does not depend on it.
    ``rivals``: compare with greedy platforms and with fleets of one type. Raises ConfigError for a plan that cannot be,
    EunomiaError for a platform or policy that fails, Interrupted on Ctrl-C.
    """
    config = _checked(given, overrides)
    if not (isinstance(workers, int) and workers >= 1):
        raise ConfigError(f"workers is {workers!r}; give the number of processes, 1 or more")
    with within(f"plan '{config.name}': search.policies"):
        for policy in config.search.policies:
            resolve_policy(policy)
    check_prices(config)
    on = judged(ground(config))
    platforms = catalogue(config, on.names, on.need_gb)
    root = None if directory is None else Path(directory)
    if root is not None:
        claim_as(root, "plan", key_of(plan_table(config)), overwrite)
    with Trials(workers, root / CELLS if root else None, on_done) as trials:
        result = PlanResult(_answered(Search(on, platforms, trials), rivals))
    if root is not None:
        write_plan(result, root)
    return result


def _answered(search: Search, rivals: bool) -> Answer:
    config, (score, actual) = search.on.plan, score_of(search)
    if config.target == "headroom":
        return _carrying(search)
    row, proof = search.least(score, "searching", actual=actual)
    if row is None:
        return Answer(search=search, row=None, proof=None, score=score, work=work_of(search, None))
    near = tuple(neighbours(search, row))
    limits = traffic_limit(search, row), cost_limit(search, row)
    steps = config.search.front if actual is None else []
    front = tuple(fronts(search, steps, row, proof))
    others = []
    if rivals and actual is None:
        others = [greedy(search, score, per_cost) for per_cost in (True, False)]
        others += [one_type(search, score, at) for at in range(len(search.platforms.names))]
    return Answer(
        search=search,
        row=row,
        proof=proof,
        score=score,
        rivals=tuple(others),
        near=near,
        front=front,
        traffic=limits[0],
        costs=limits[1],
        work=work_of(search, row),
    )


def _carrying(search: Search) -> Answer:
    """The platform of the most traffic; its price is what it is."""
    found = most_traffic(search)
    near = () if found.row is None else tuple(neighbours(found.search, found.row))
    return Answer(
        search=found.search,
        row=found.row,
        proof=found.proof,
        score=score_of(found.search)[0],
        near=near,
        front=found.carriers,
        nobody=found.nobody * (1.0 + search.settings.headroom),
        costs=None if found.row is None else cost_limit(found.search, found.row),
        work=work_of(found.search, found.row),
    )


def write_plan(result: PlanResult, root: Path) -> None:
    """``plan.json``, ``plan.csv`` (a line per platform), ``report.html`` and the manifest."""
    write_text(root / "plan.json", json.dumps(finite(result.data()), indent=1, allow_nan=False) + "\n")
    rows, text = result.rows(), io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(root / "plan.csv", text.getvalue().encode())
    write_text(root / "report.html", render_sweep(plan_page(result)))
    manifest = {
        "name": result.config.name,
        "kind": "plan",
        "policies": list(result.config.search.policies),
        "failures": {},
        "config": _table(result.config),
        **provenance(),
    }
    write_comparison(root, manifest)


def finite(value: object) -> object:
    """Plain data with None for every number that is none."""
    if isinstance(value, dict):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
