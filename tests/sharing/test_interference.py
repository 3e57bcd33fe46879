"""Interference predictors: each recovers what it assumes, on cases made to measure."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.sharing.interference import (
    BACK_ENDS,
    CoRun,
    Factorised,
    Forest,
    Linear,
    Mean,
    UtilisationSum,
    predictor,
)

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


@pytest.mark.parametrize("unified", [False, True])
def test_forest_learns_a_threshold(unified: bool) -> None:
    """Slowdown 2 when both need much, 1 otherwise: no line can say that."""
    features = {f"{i}": np.array([i / 20.0]) for i in range(20)}
    rows = [
        CoRun(a, (b,), "v", 2.0 if min(features[a][0], features[b][0]) > 0.5 else 1.0)
        for a, b in itertools.product(features, features)
    ]
    model = Forest(features, unified, {"v": np.array([1.0])}, seed=1)
    model.fit(rows)
    assert model.predict("18", ["17"], "v")[0] > 1.8
    assert model.predict("2", ["17"], "v")[0] < 1.1
    again = Forest(features, unified, {"v": np.array([1.0])}, seed=1)
    again.fit(rows)
    assert again.predict("11", ["9"], "v") == model.predict("11", ["9"], "v")


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
