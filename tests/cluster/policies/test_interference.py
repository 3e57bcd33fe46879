"""Placement by predicted interference: who shares with whom, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.interference import InterferencePlacement
from eunomia.contract.allocation import ClusterView
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.policies.peer_views import view_of

TWO = Cluster.of({"gpu": 2}, 1)


def _view(together: float = 0.6, **more: object) -> ClusterView:
    """Jobs 0 and 1 run, 2 waits; every pair runs at ``together`` of each one's speed."""
    beside = np.full((3, 3, 1), together)
    return view_of(
        TWO, [[1.0]] * 3, [9.0] * 3, row=[0, 1, 2], beside=beside, holdings=[(0, 0, 1), (1, 1, 1)],
        first_start_s=[0.0, 1.0, np.nan], **more,
    )  # type: ignore[arg-type] # fmt: skip


def _partner(policy: InterferencePlacement, view: ClusterView) -> int | None:
    policy.reset(0)
    answer = policy.allocate(view)
    if answer.pairs is None:
        return None
    assert answer.devices is not None and answer.devices.sum() == 1 and answer.pairs.second.tolist() == [2]
    return int(answer.pairs.first[0])


def test_least_predicted_interference() -> None:
    relative = np.full((3, 3, 1), 0.6)
    relative[2, 1, 0] = 0.9  # the waiting job hardly suffers beside job 1
    assert _partner(InterferencePlacement("coscheml", relative), _view()) == 1
    assert _partner(InterferencePlacement("coscheml"), _view(0.9)) == 0  # all equal: the first
    assert _partner(InterferencePlacement("coscheml"), _view(0.5)) is None  # 0.5 + 0.5 gains nothing


def test_horus_adds_utilisations() -> None:
    view = _view(traits={"utilisation": [0.8, 0.5, 0.4]})
    assert _partner(InterferencePlacement("horus", cap=1.0), view) == 1
    assert _partner(InterferencePlacement("horus", cap=0.8), view) is None


def test_alone_and_random() -> None:
    assert _partner(InterferencePlacement("alone"), _view(0.9)) is None
    assert _partner(InterferencePlacement("random"), _view(0.3)) in (0, 1)


def test_pairs_that_do_not_fit_are_never_made() -> None:
    for rule in ("coscheml", "horus", "random"):
        policy = InterferencePlacement(rule, np.ones((3, 3, 1)))  # type: ignore[arg-type]
        assert _partner(policy, _view(0.0, traits={"utilisation": [0.1] * 3})) is None


def test_settings() -> None:
    with pytest.raises(ConfigError, match="rule is 'best'"):
        InterferencePlacement("best")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="least_gain is 0.5"):
        allocator("coscheml", least_gain=0.5)
    assert allocator("horus", cap=0.9).needs.pairs
