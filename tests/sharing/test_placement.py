"""Paragon's placement: steps by hand, completion from probes, and rules against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.sharing.placement import RULES, Apps, Servers, complete
from eunomia.sharing.placement.rules import performance, two_step
from eunomia.study.sharing.place import PlaceStudy, draw_apps, run_place

# Application 0 tolerates little, 1 causes much, 2 is harmless and fastest on kind 1.
HAND = Apps(
    np.array([[0.2, 0.5], [0.9, 0.9], [0.5, 0.5]]),
    np.array([[0.1, 0.0], [0.6, 0.0], [0.1, 0.1]]),
    np.array([[1.0, 0.5], [1.0, 0.5], [0.6, 1.0]]),
)


def test_speed_by_hand() -> None:
    """0 beside 1: pressure 0.6 where 0.2 is tolerated: 5 % and 0.4 more; 1 loses 5 % x 0.1 / 0.9."""
    found = performance(HAND, np.array([[0, 1, -1]]), np.array([0]))[0]
    assert found[:2] == pytest.approx([0.55, 1.0 - 0.05 / 9.0]) and np.isnan(found[2])
    assert performance(HAND, np.array([[2]]), np.array([0]))[0] == pytest.approx([0.6])


def test_two_step_filters_before_it_looks_at_speed() -> None:
    servers = Servers(np.array([0, 1]), 2)
    servers.put(0, 0)
    assert two_step(HAND, servers, 1) == 1  # kind 0 is faster, but 0 would suffer there
    assert two_step(HAND, servers, 2) == 1  # both are acceptable: the faster kind
    servers.put(2, 1)
    servers.put(2, 1)
    assert two_step(HAND, servers, 1) == 0  # nothing else has room


def test_completion_of_profiles_with_one_factor() -> None:
    """One probe determines all scores if all profiles are multiples of one direction."""
    rng = np.random.default_rng(0)
    profiled = 0.5 + rng.uniform(-0.3, 0.3, (20, 1)) * np.array([[1.0, -1.0, 0.5]])
    found = complete(profiled, [0], np.array([0.7]), ridge=1e-9)
    centre = profiled.mean(axis=0)
    wanted = centre + (0.7 - centre[0]) * np.array([1.0, -1.0, 0.5])
    assert found == pytest.approx(wanted, abs=1e-6)


def test_more_probes_are_better_than_the_mean() -> None:
    rng = np.random.default_rng(1)
    scores = draw_apps(rng, 160).tolerated
    errors = []
    for probes in (0, 2, 5):
        made = [complete(scores[:60], list(range(probes)), row[:probes]) for row in scores[60:]]
        errors.append(float(np.abs(np.array(made) - scores[60:]).mean()))
    assert errors[2] < errors[1] < errors[0]


def test_every_rule_keeps_to_the_slots_and_the_oracle_leads() -> None:
    rng = np.random.default_rng(2)
    apps = draw_apps(rng, 24)
    for rule in RULES.values():
        servers = Servers(rng.integers(0, 10, 8), 3)
        for app in range(24):
            servers.put(app, rule(apps, servers, app))
        assert sorted(servers.residents.ravel().tolist()) == list(range(24))
    found = run_place(PlaceStudy(40, 80, 4, 2, (0, 1)))
    means = {name: found.estimate(name, "within_5").mean for name in found.methods}
    assert max(means.values()) == means["oracle"] > means["two-step"] > means["least loaded"]


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="'caused' is not within 0 and 1"):
        Apps(np.zeros((1, 1)), np.full((1, 1), 2.0), np.ones((1, 1)))
    with pytest.raises(ConfigError, match="at most 4"):
        PlaceStudy(servers=1, apps=5)
    with pytest.raises(ConfigError, match="0 probes"):
        PlaceStudy(probes=0)
    with pytest.raises(ConfigError, match="profiled in full"):
        complete(np.zeros((0, 3)), [0], np.array([0.5]))
    full = Servers(np.array([0]), 1)
    full.put(0, 0)
    with pytest.raises(ConfigError, match="no free slot"):
        full.put(1, 0)
