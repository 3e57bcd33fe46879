"""Every result has a short table, rows for pandas, a chart and a repr of a few lines."""

from __future__ import annotations

import builtins
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import eunomia
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.study.result import REPR_LINES, Result
from tests.cli.scenarios import SMALL

matplotlib.use("agg")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JOBS = EXAMPLES / "cluster_jobs.toml"
POLICIES = ["fcfs", "edf"]


def small() -> dict[str, Any]:
    return tomllib.loads(SMALL)


def pool() -> Result:
    from eunomia.config.cluster_worlds import load_pool
    from eunomia.study.cluster.pool import run_pools

    return run_pools(load_pool(EXAMPLES / "cluster_pool.toml", ["compare.seeds=2"]))


RESULTS: dict[str, Callable[[], Result]] = {
    "run": lambda: eunomia.run(small(), policy="edf"),
    "compare": lambda: eunomia.compare(small(), POLICIES, seeds=2),
    "sweep": lambda: eunomia.sweep(small(), {"load": [0.5, 1.2]}, POLICIES, seeds=2),
    "bracket": lambda: eunomia.compare(small(), POLICIES, seeds=2, bracket=20).standing,  # type: ignore[dict-item, return-value]
    "cluster run": lambda: eunomia.run_cluster(JOBS),
    "cluster compare": lambda: eunomia.compare_cluster(JOBS, seeds=2),
    "cluster sweep": lambda: eunomia.sweep_cluster(JOBS, {"simulation.round_s": [60, 360]}, seeds=1),
    "what if": lambda: eunomia.what_if(JOBS, eunomia.Change(weight={"gold": 2.0})),
    "pool": pool,
}


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {name: make() for name, make in RESULTS.items()}


@pytest.fixture(params=RESULTS)
def result(request: pytest.FixtureRequest, results: dict[str, Result]) -> Result:
    return results[request.param]


def test_a_repr_has_a_few_lines_and_says_what_it_is(result: Result) -> None:
    lines = repr(result).splitlines()
    assert len(lines) <= REPR_LINES + 1 and len(repr(result)) < 1600
    assert lines[0] == f"{type(result).__name__}: {result.title}"


def test_a_summary_holds_the_title_and_an_aligned_table(result: Result) -> None:
    title, *rest = result.summary().splitlines()
    table = result.table().text().splitlines()
    assert title == result.title and rest[: len(table)] == table
    assert len(table) == len(result.table().rows) + 1 > 1


def test_rows_become_a_data_frame(result: Result) -> None:
    rows, frame = result.rows(), result.to_pandas()
    assert len(frame) == len(rows) > 0
    assert list(frame.columns) == list(dict.fromkeys(key for row in rows for key in row))
    known = [
        (n, k, v)
        for n, row in enumerate(rows)
        for k, v in row.items()
        if isinstance(v, float) and math.isfinite(v)
    ]
    assert known and all(frame[key].iloc[number] == value for number, key, value in known)


def test_a_chart_shows_something(result: Result) -> None:
    from matplotlib import pyplot

    axes = result.plot()
    drawn = [*axes.patches, *axes.lines, *axes.containers]
    assert drawn and axes.get_title() == result.title and (axes.get_ylabel() or axes.get_xlabel())
    _, given = pyplot.subplots()
    assert result.plot(given) is given
    pyplot.close("all")


def test_a_chart_of_another_metric(results: dict[str, Result]) -> None:
    axes = results["compare"].plot(metric="response_p99_s")
    assert axes.get_ylabel() == "p99 response"
    with pytest.raises(UnknownNameError, match="did you mean 'hit_rate'"):
        results["compare"].plot(metric="hitrate")


@pytest.mark.parametrize(
    ("library", "call", "extra"), [("pandas", "to_pandas", "pandas"), ("matplotlib", "plot", "plot")]
)
def test_an_absent_library_is_named_with_the_command_that_installs_it(
    library: str, call: str, extra: str, results: dict[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == library:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError) as refused:
        getattr(results["run"], call)()
    assert library in str(refused.value) and f"pip install 'eunomia[{extra}]'" in str(refused.value)


def test_all_results_of_the_lab_agree_number_by_number(results: dict[str, Result]) -> None:
    """The mean in the table is the mean of the rows, for every policy and headline metric."""
    from eunomia.metrics.table import HEADLINES, METRICS
    from eunomia.report.units import estimate_text

    compared = results["compare"]
    assert isinstance(compared, eunomia.CompareResult)
    table, frame = compared.table(), compared.to_pandas()
    for row in table.rows:
        mine = frame[frame["policy"] == row[0]]
        for name in HEADLINES:
            if METRICS[name].heading not in table.header:
                assert mine[name].isna().all()  # of learned policies alone
                continue
            shown = row[table.header.index(METRICS[name].heading)]
            assert shown == estimate_text(METRICS[name], compared.estimate(row[0], name))
            assert compared.estimate(row[0], name).mean == pytest.approx(mine[name].mean(), nan_ok=True)
