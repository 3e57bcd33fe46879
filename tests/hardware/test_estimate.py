"""Measured costs with gaps: what is given stays, what is missing is estimated, and the error is that of leaving out."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eunomia
from eunomia.config.load import scenario_from
from eunomia.core.errors import ConfigError, PlatformError, UnknownNameError
from eunomia.hardware.build import build_table, modelled_s
from eunomia.hardware.entries import Entries
from eunomia.hardware.estimate import FEATURES, all_layers, features, fill, fit
from eunomia.hardware.table_csv import read_cost_csv, read_entries
from eunomia.hardware.types import load_type
from eunomia.study.inference.bench import costed
from eunomia.study.inference.measured import coverage, template_csv
from eunomia.workload import zoo
from tests.cli.scenarios import SMALL

NETS = (zoo.load("squeezenet"),)
LAYERS = all_layers(NETS)
SIZE = features(LAYERS)
RATES = np.array([1e-12, 3e-10, 2e-10, 5e-6])  # s per MAC, operation, element; a constant
TRUE_S = SIZE @ RATES


def entries(times: np.ndarray, dram: np.ndarray | None = None, energy: np.ndarray | None = None) -> Entries:
    """One type, as a file would give it."""
    zero = np.zeros((len(times), 1))
    columns = [zero if values is None else values[:, None] for values in (dram, energy)]
    return Entries(NETS, ("npu",), times[:, None], zero, *columns, np.array([np.inf]), ("measured",))


def only(rows: list[int], times: np.ndarray = TRUE_S) -> np.ndarray:
    """These times, and gaps."""
    return np.array([times[n] if n in rows else np.nan for n in range(len(times))])


def test_what_is_given_stays_and_equal_shapes_are_copied() -> None:
    column, how = fill(entries(TRUE_S), 0, LAYERS, None)
    assert (column["compute_s"] == TRUE_S).all() and (how.estimated, how.copied) == (0, 0)
    alike = [n for n, layer in enumerate(LAYERS) if layer.shape_key() == LAYERS[-1].shape_key()]
    first = {layer.shape_key(): n for n, layer in reversed(list(enumerate(LAYERS)))}
    column, how = fill(entries(only(list(first.values()))), 0, LAYERS, None)
    assert (
        (column["compute_s"] == TRUE_S).all() and how.copied == len(LAYERS) - len(first) and len(alike) >= 1
    )


def test_times_that_follow_sizes_are_found_again() -> None:
    rows = list(range(0, len(LAYERS), 2))
    column, how = fill(entries(only(rows), SIZE[:, 2], 7.0 * TRUE_S), 0, LAYERS, None)
    np.testing.assert_allclose(column["compute_s"], TRUE_S, rtol=1e-6)
    assert (
        how.how == "size" and np.median(how.errors) < 1e-6
    )  # the only large pool is not known without itself
    np.testing.assert_allclose(column["energy_j"], 7.0 * TRUE_S, rtol=1e-6)
    np.testing.assert_allclose(column["dram_bytes"], SIZE[:, 2])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 12))
def test_the_stated_errors_are_those_of_leaving_each_shape_out(seed: int, count: int) -> None:
    """The slow twin: fill the table again without each given shape."""
    rng = np.random.default_rng(seed)
    first = list({layer.shape_key(): n for n, layer in reversed(list(enumerate(LAYERS)))}.values())
    rows = sorted(rng.choice(first, count, replace=False).tolist())
    noisy = TRUE_S * rng.uniform(0.7, 1.3, len(TRUE_S))
    _, how = fill(entries(only(rows, noisy)), 0, LAYERS, None)
    assert how.given == count and len(how.errors) == count
    for n, row in enumerate(rows):
        rest = [other for other in rows if other != row]
        guess = max(float(SIZE[row] @ fit(SIZE[rest], noisy[rest])), noisy[rows].min() / 100.0)
        assert how.errors[n] == pytest.approx(abs(guess / noisy[row] - 1.0), rel=1e-6, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 9))
def test_no_small_step_makes_the_fit_better(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(LAYERS), count, replace=False)
    times = TRUE_S[rows] * rng.uniform(0.3, 3.0, count)
    weights = fit(SIZE[rows], times)
    assert (weights >= 0.0).all() and weights.any() and np.count_nonzero(weights) <= max(1, count - 1)

    def error(found: np.ndarray) -> float:
        return float((((SIZE[rows] @ found) / times - 1.0) ** 2).sum())

    for n in np.flatnonzero(weights):
        for factor in (0.99, 1.01):
            stepped = weights.copy()
            stepped[n] *= factor
            assert error(stepped) >= error(weights) - 1e-9
    assert len(weights) == len(FEATURES)


def test_kinds_that_cannot_run_stay_so_and_unseen_kinds_are_named() -> None:
    pools = [n for n, layer in enumerate(LAYERS) if layer.kind == "pool"]
    convolutions = [n for n, layer in enumerate(LAYERS) if layer.kind == "conv"][:6]
    times = only(convolutions)
    times[pools[0]] = np.inf
    column, _ = fill(entries(times), 0, LAYERS, None)
    assert np.isinf(column["compute_s"][pools]).all()
    _, how = fill(entries(only(convolutions)), 0, LAYERS, None)
    assert (
        "pool" in how.unseen
        and "nothing was given of" in how.sentence()
        and "do not contend" in how.sentence()
    )


def test_one_time_gives_an_estimate_without_an_error_and_none_is_refused() -> None:
    column, how = fill(entries(only([0])), 0, LAYERS, None)
    assert np.isfinite(column["compute_s"]).all() and (column["compute_s"] > 0.0).all()
    assert how.errors == () and "too few were given" in how.sentence()
    with pytest.raises(PlatformError, match="no time at all is given for 'npu'"):
        fill(entries(only([])), 0, LAYERS, None)
    with pytest.raises(PlatformError, match="all layers given for 'npu' cannot run"):
        fill(entries(np.where(np.arange(len(LAYERS)) == 0, np.inf, np.nan)), 0, [*LAYERS], None)


def test_a_type_that_is_modelled_is_scaled_where_that_is_nearer() -> None:
    model_s = modelled_s(NETS, load_type("simba"))
    rng = np.random.default_rng(1)
    true_s = 1.7 * model_s * rng.uniform(0.95, 1.05, len(model_s))
    rows = list(range(0, len(LAYERS), 5))
    column, how = fill(entries(only(rows, true_s)), 0, LAYERS, model_s)
    hidden = [n for n in range(len(LAYERS)) if n not in rows]
    assert how.how == "its model, scaled"
    assert np.abs(column["compute_s"] / true_s - 1.0)[hidden].max() < 0.12


# from a scenario to a run


def scenario(
    folder: Path, text: str, kinds: str = "{ type = 'simba' }, { type = 'npu' }"
) -> dict[str, object]:
    (folder / "costs.csv").write_text(text)
    table = tomllib.loads(SMALL)
    table["platform"] = tomllib.loads(f"accelerators = [{kinds}]\ndram_bandwidth_gb_s = 16.0\n")
    table["platform"]["cost_csv"] = str(folder / "costs.csv")
    return table


def filled_in(table: dict[str, object], every: int) -> str:
    """A template of which every n-th row of npu has a time."""
    text, rows = template_csv(scenario_from(table), ["npu", "simba"])
    lines = list(csv.reader(text.splitlines()))
    assert len(lines) == rows + 1
    for number, line in enumerate(lines[1:]):
        if line[2] == "npu" and number % every == 0:
            line[3] = f"{1e-5 * (1 + number % 7)}"
    return "\n".join(",".join(line) for line in lines) + "\n"


def test_a_template_filled_in_by_half_runs_beside_a_modelled_type(tmp_path: Path) -> None:
    table = scenario(tmp_path, "model,layer,type,latency_s\nsqueezenet,0,npu,1e-5\n")
    text = filled_in(table, 2)
    table = scenario(tmp_path, text)
    models, machine = costed(scenario_from(table))
    assert machine.types == ("simba", "npu")
    alone = build_table(models, [load_type("simba")])
    assert (machine.table.compute_s[:, 0] == alone.compute_s[:, 0]).all(), "a type without times is modelled"
    given_s = read_entries(tmp_path / "costs.csv", models).compute_s[:, 0]
    known = ~np.isnan(given_s)
    assert known.any() and (machine.table.compute_s[known, 1] == given_s[known]).all()
    assert "estimated" in machine.table.origin[1] and machine.table.origin[0].startswith("model")
    result = eunomia.run(table, policy="edf")
    assert result.metrics["requests"] > 0
    (how,) = coverage(scenario_from(table), tmp_path / "costs.csv")
    assert how == machine.filled[0] and how.estimated > 0 and "error when each given shape" in how.sentence()


def test_a_complete_file_gives_what_it_gave_before(tmp_path: Path) -> None:
    table = scenario(tmp_path, "model,layer,type,latency_s\nsqueezenet,0,npu,1e-5\n")
    text = filled_in(table, 1).replace(",simba,,", ",simba,2e-5,")
    table = scenario(tmp_path, text)
    models, machine = costed(scenario_from(table))
    rows = [line for line in csv.DictReader(text.splitlines()) if line["type"] == "npu"]
    assert machine.filled[1].estimated == 0 and len(rows) == machine.filled[1].given
    with pytest.raises(PlatformError, match="no time for layer"):
        read_cost_csv(tmp_path / "costs.csv", models)  # strict: equal shapes are gaps, too


def test_wrong_names_and_empty_files_are_one_sentence(tmp_path: Path) -> None:
    table = scenario(tmp_path, "model,layer,type,latency_s\nsqueezenet,0,npu,1e-5\n", "{ type = 'npus' }")
    with pytest.raises(
        UnknownNameError, match="'npus', neither a known type nor in .*costs.csv; did you mean 'npu'"
    ):
        costed(scenario_from(table))
    table = scenario(tmp_path, "model,layer,type,latency_s\nsqueezenet,0,npu,\n")
    with pytest.raises(PlatformError, match="no time at all is given for 'npu'"):
        costed(scenario_from(table))
    with pytest.raises(ConfigError, match="holds no time for squeezenet"):
        coverage(scenario_from(table), tmp_path / "costs.csv")
