"""Interference predictors: each recovers what it assumes, on cases made to measure."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.sharing.interference import (
    BACK_ENDS,
    BY_TREES,
    Completed,
    CoRun,
    Factorised,
    Linear,
    Mean,
    Online,
    Trees,
    UtilisationSum,
    predictor,
)
from eunomia.sharing.interference.table import noise_floor, read_co_runs, read_features
from eunomia.study.sharing.predict import Evidence, learn_online, leave_one_job_out

NAMES = tuple("abcdefgh")
TOLERATES = {name: 0.05 * i for i, name in enumerate(NAMES)}
CAUSES = {name: 0.04 * (7 - i) for i, name in enumerate(NAMES)}
FEATURES = {name: np.array([TOLERATES[name], CAUSES[name]]) for name in NAMES}


def _rows(kinds: tuple[str, ...] = ("v100",)) -> list[CoRun]:
    """log slowdown = t(target) + c(neighbour) + 0.1 per kind."""
    return [
        CoRun(a, (b,), kind, math.exp(TOLERATES[a] + CAUSES[b] + 0.1 * k))
        for a, b in itertools.product(NAMES, NAMES)
        for k, kind in enumerate(kinds)
    ]


def _error(model, rows) -> float:  # type: ignore[no-untyped-def]
    return max(abs(model.predict(r.target, r.neighbours, r.kind)[0] / r.slowdown - 1.0) for r in rows)


def test_mean_by_hand() -> None:
    model = Mean()
    model.fit([CoRun("a", ("b",), "v", 1.0), CoRun("b", ("a",), "v", 4.0), CoRun("a", ("b", "c"), "v", 9.0)])
    assert model.predict("x", ["y"], "v")[0] == pytest.approx(2.0)
    assert model.predict("x", ["y", "z"], "v")[0] == pytest.approx(9.0)
    assert model.predict("x", ["y"], "never seen")[0] == pytest.approx(36 ** (1 / 3))


def test_utilisation_sum_finds_the_line() -> None:
    use = {"a": 0.2, "b": 0.9, "c": 0.5}
    rows = [CoRun(x, (y,), "v", 0.8 + 0.6 * (use[x] + use[y])) for x, y in itertools.product("abc", "abc")]
    model = UtilisationSum(use)
    model.fit(rows)
    assert model.predict("b", ["c"], "v")[0] == pytest.approx(0.8 + 0.6 * 1.4)
    assert model.predict("a", [], "v")[0] == 1.0  # never faster than alone


@pytest.mark.parametrize("kinds", [("v100",), ("v100", "k80")])
def test_linear_and_factorised_recover_additive_logs(kinds: tuple[str, ...]) -> None:
    rows = _rows(kinds)
    for model in (Linear(FEATURES, ridge=1e-9), Factorised(ridge=1e-9)):
        model.fit(rows)
        assert _error(model, rows) < 1e-3


def test_linear_predicts_a_job_never_seen() -> None:
    model = Linear(FEATURES, ridge=1e-9)
    model.fit([row for row in _rows() if "d" not in (row.target, *row.neighbours)])
    assert _error(model, [row for row in _rows() if row.target == "d"]) < 1e-3


def test_factorised_needs_few_probes() -> None:
    """Without probes 'h' is average; two observations place it."""
    known = [row for row in _rows() if "h" not in (row.target, *row.neighbours)]
    probes = [row for row in _rows() if (row.target, row.neighbours) in (("h", ("a",)), ("b", ("h",)))]
    unseen = [row for row in _rows() if row.target == "h" and row.neighbours[0] not in "ah"]
    errors = []
    for rows in (known, known + probes):
        model = Factorised(ridge=1e-6)
        model.fit(rows)
        errors.append(_error(model, unseen))
    assert errors[1] < 0.02 < errors[0]


@pytest.mark.parametrize("name", BY_TREES)
def test_trees_learn_a_threshold(name: str) -> None:
    """Slowdown 2 when both need much, 1 otherwise: no line can say that."""
    features = {f"{i}": np.array([i / 20.0]) for i in range(20)}
    rows = [
        CoRun(a, (b,), "v", 2.0 if min(features[a][0], features[b][0]) > 0.5 else 1.0)
        for a, b in itertools.product(features, features)
    ]
    pytest.importorskip("sklearn")
    model = predictor(name, features, None, {"v": np.array([1.0])}, seed=1)
    model.fit(rows)
    assert model.predict("18", ["17"], "v")[0] > 1.8
    assert model.predict("2", ["17"], "v")[0] < 1.1
    again = predictor(name, features, None, {"v": np.array([1.0])}, seed=1)
    again.fit(rows)
    assert again.predict("11", ["9"], "v") == model.predict("11", ["9"], "v")


def test_trees_of_a_kind_never_seen_are_the_mean_of_all() -> None:
    pytest.importorskip("sklearn")
    rows = [
        CoRun(a, (b,), kind, slow) for a in NAMES for b in NAMES for kind, slow in (("v", 1.5), ("k", 6.0))
    ]
    model = Trees(FEATURES)
    model.fit(rows)
    assert model.predict("a", ["b"], "k")[0] == pytest.approx(6.0)
    assert model.predict("a", ["b"], "never seen")[0] == pytest.approx(3.0)  # of logarithms


def test_without_scikit_learn_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(ConfigError, match=r"pip install 'eunomia\[sharing\]'"):
        Trees(FEATURES).fit(_rows())


def test_online_ends_at_what_it_sees() -> None:
    """The same co-run again and again: from the mean 1.0 to the measured 2.0; others of the job move with it."""
    model = Online(Mean())
    model.fit([CoRun("a", ("b",), "v", 1.0), CoRun("b", ("a",), "v", 1.0)])
    assert model.predict("new", ["b"], "v")[0] == pytest.approx(1.0)
    errors = []
    for _ in range(50):
        model.observe(CoRun("new", ("b",), "v", 2.0))
        errors.append(abs(model.predict("new", ["b"], "v")[0] - 2.0))
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.01
    assert 1.1 < model.predict("new", ["a"], "v")[0] < 2.0
    model.fit([CoRun("a", ("b",), "v", 1.0)])
    assert model.predict("new", ["b"], "v")[0] == pytest.approx(1.0)  # what was learned is forgotten


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(0.5, 20.0)), max_size=40))
def test_correcting_predictors_stay_finite_and_at_least_1(seen: list[tuple[str, str, float]]) -> None:
    for model in (Online(), Completed()):
        model.fit(_rows())
        for target, beside, slowdown in seen:
            model.observe(CoRun(target, (beside,), "v100", slowdown))
        for target in (*NAMES, "new"):
            slowdown, spread = model.predict(target, ["a", "new"], "v100")
            assert 1.0 <= slowdown < 1e5 and math.isfinite(spread) and spread >= 0.0


def test_neighbours_have_no_order() -> None:
    for model in (Online(), Completed()):
        model.fit([CoRun("a", ("b", "c"), "v", 2.0), CoRun("b", ("c", "a"), "v", 1.5)])
        model.observe(CoRun("a", ("c", "b"), "v", 3.0))
        assert model.predict("a", ["b", "c"], "v") == model.predict("a", ["c", "b"], "v")


def test_completed_finds_a_mixture() -> None:
    """'new' is slowed like 'x' in every company; no sum of parts says so, three co-runs of it do."""
    rng = np.random.default_rng(0)
    company = [f"n{i}" for i in range(12)]
    logs = {name: rng.uniform(0.0, 0.7, 12) for name in "xyz"}
    rows = [CoRun(t, (c,), "v", math.exp(logs[t][i])) for t in logs for i, c in enumerate(company)]
    new = [CoRun("new", (c,), "v", math.exp(logs["x"][i])) for i, c in enumerate(company)]
    model, plain = Completed(ridge=1e-3), Factorised()
    model.fit(rows)
    for row in new[:3]:
        model.observe(row)
    plain.fit([*rows, *new[:3]])
    assert _error(model, new[3:]) < 0.5 * _error(plain, new[3:])


def test_learning_online_halves_the_error_of_mean() -> None:
    rng = np.random.default_rng(1)
    names = [f"j{i}" for i in range(20)]
    wants, has = rng.normal(0.0, 0.4, (20, 2)), rng.normal(0.0, 0.4, (20, 2))
    rows = [
        CoRun(names[a], (names[b],), k, math.exp(1.0 + float(wants[a] @ has[b])))
        for a, b, k in itertools.product(range(20), range(20), ("v", "w"))
    ]
    found = learn_online(Evidence(rows), ("mean",))
    assert found.estimate("completed", "after_50").mean < 0.5 * found.estimate("mean", "after_50").mean
    assert found.estimate("online, mean", "after_0") == found.estimate("mean", "after_0")


def test_leave_one_job_out_shows_no_row_of_the_job() -> None:
    """The mean of what is left, by hand: of 'a', rows of 'b' beside 'c' remain."""
    rows = [CoRun("a", ("b",), "v", 3.0), CoRun("b", ("c",), "v", 2.0), CoRun("c", ("b",), "v", 2.0)]
    found = leave_one_job_out(Evidence(rows + [CoRun("b", ("a",), "v", 9.0), CoRun("a", ("d",), "v", 3.0)]))
    assert found.figures["mean"][0]["error"] == pytest.approx(1.0 / 3.0)
    assert found.figures["none"][0]["error"] == pytest.approx(2.0 / 3.0)


def test_noise_floor_by_hand() -> None:
    rows = [CoRun("a", ("b", "c"), "v", 2.0), CoRun("a", ("c", "b"), "v", 2.2), CoRun("a", ("b",), "v", 9.0)]
    assert noise_floor(rows) == pytest.approx(0.1)
    assert noise_floor(rows[1:]) is None


def test_tables_say_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("target,neighbours,kind,slowdown\na,b+c,v,1.5\n")
    assert read_co_runs(file) == [CoRun("a", ("b", "c"), "v", 1.5)]
    for text, said in {
        "target,kind\n": "no column 'neighbours'",
        "target,neighbours,kind,slowdown\na,b,v,fast\n": r"t\.csv:2: .*'fast'",
        "target,neighbours,kind,slowdown\na,b,v,-1\n": "not positive",
        "target,neighbours,kind,slowdown\n": "no co-runs",
        "target,neighbours,kind,slowdown\na,b,v\n": "not as many cells",
    }.items():
        file.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_co_runs(file)
    file.write_text("job,flops\na,many\n")
    with pytest.raises(ConfigError, match="not a number"):
        read_features(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_co_runs(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="needs at least 3"):
        leave_one_job_out(Evidence([CoRun("a", ("b",), "v", 2.0)]))


def test_all_back_ends_answer() -> None:
    use = {name: 0.5 for name in NAMES}
    for name in BACK_ENDS:
        model = predictor(name, FEATURES, use, {"v100": np.array([1.0])})
        model.fit(_rows())
        slowdown, spread = model.predict("a", ["b"], "v100")
        assert slowdown >= 1.0 and spread >= 0.0


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="slowdown is nan"):
        CoRun("a", ("b",), "v", math.nan)
    with pytest.raises(UnknownNameError, match="did you mean 'forest'"):
        predictor("forst", FEATURES)
    with pytest.raises(ConfigError, match="needs features"):
        predictor("linear")
    with pytest.raises(ConfigError, match="needs the jobs' utilisations"):
        predictor("utilisation_sum")
    with pytest.raises(UnknownNameError, match="job with features 'z'"):
        model = Linear(FEATURES)
        model.fit([CoRun("z", ("a",), "v", 1.0)])
    with pytest.raises(ConfigError, match="no co-runs"):
        Linear(FEATURES).fit([])
