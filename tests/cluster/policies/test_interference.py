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


@pytest.mark.parametrize("kind, host", [(0, 0), (1, 1)])
def test_pairs_run_on_the_type_of_the_first(kind: int, host: int) -> None:
    """Job 0 holds a device of type a, job 1 one of type b. A pair with job 2 runs on one of the types alone."""
    beside = np.zeros((3, 3, 2))
    beside[:, :, kind] = 0.9
    view = view_of(
        Cluster.of({"a": 1, "b": 1}, 1), [[1.0, 1.0]] * 3, [9.0] * 3, row=[0, 1, 2], beside=beside,
        holdings=[(0, 0, 1), (1, 1, 1)], first_start_s=[0.0, 1.0, np.nan],
    )  # fmt: skip
    answer = InterferencePlacement("coscheml").allocate(view)
    assert answer.pairs is not None
    assert (answer.pairs.first.tolist(), answer.pairs.second.tolist()) == ([host], [2])
    assert answer.pairs.shares.tolist() == [[1.0, 0.0] if kind == 0 else [0.0, 1.0]]


def test_nobody_waits_or_nobody_runs() -> None:
    beside = np.full((2, 2, 1), 0.9)
    policy = InterferencePlacement("coscheml")
    for scale in ([1, 1], [4, 4]):  # both find free devices; neither fits
        view = view_of(TWO, [[1.0]] * 2, [9.0] * 2, scale=scale, row=[0, 1], beside=beside)
        assert policy.allocate(view).pairs is None


def test_horus_takes_the_partner_with_the_least_utilisation() -> None:
    for busy, partner in (([0.3, 0.2, 0.4], 1), ([0.2, 0.3, 0.4], 0), ([0.6, 0.5, 0.4], 1)):
        view = _view(traits={"utilisation": busy})
        assert _partner(InterferencePlacement("horus", cap=1.0), view) == partner


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
