"""The learned order: features by hand, guards, and that it is what it says at its start."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.cluster.policies.attained_service import Tiresias
from eunomia.cluster.policies.learned import START, Learned, shipped
from eunomia.cluster.policies.learned_features import FEATURES, History, features
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.policies.peer_views import check_legal, view_of

CLUSTER = Cluster.of({"a": 4, "b": 4}, 4)


def _view(jobs: int = 3, now_s: float = 20_000.0):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(2)
    attained = rng.uniform(0.0, 9000.0, (jobs, 2))
    return view_of(
        CLUSTER,
        [[1.0, 2.0]] * jobs,
        [9.0] * jobs,
        now_s=now_s,
        first_start_s=rng.uniform(0.0, 9000.0, jobs).tolist(),
        scale=[2] * jobs,
        attained_s=attained.tolist(),
    )


def test_features_by_hand() -> None:
    """Job 0 holds 2 of 8, has had 600 device-seconds in 600 s on 2 devices; job 1 came now."""
    view = view_of(
        CLUSTER, [[1.0, 2.0], [1.0, 0.0]], [9.0, 9.0], now_s=600.0, scale=[2, 4], arrival_s=[0.0, 600.0],
        attained_s=[[600.0, 0.0], [0.0, 0.0]], holdings=[(0, 0, 2)], tenant=[0, 1],
    )  # fmt: skip
    rows = dict(zip(FEATURES, features(view, History()).T.tolist(), strict=True))
    assert rows["relative service"] == pytest.approx([np.log(3.0), 0.0])
    assert rows["width"] == [1.0, 2.0]
    assert rows["starved"] == [0.5, 0.0]
    assert rows["runs"] == [1.0, 0.0]
    assert rows["age"] == pytest.approx([np.log(3.0), 0.0])
    assert rows["tenant holds"] == [0.5, 0.0]  # 2 of the 4 that are its part
    slow = np.log(1200.0 / 900.0)  # ran 300 of 600 s
    assert rows["tenant slow"] == pytest.approx([slow / 2.0, -slow / 2.0])
    assert rows["speed"] == [1.0, 0.0]  # type b is free; job 1 wants 4 of type a, where 2 are left
    assert rows["ends soon"] == [0.5, 0.5]  # nothing known


def test_history_by_hand() -> None:
    """Tenant 0's jobs needed 100 and 5000 device-seconds, tenant 1's 9000."""
    history = History()
    for key, left, tenant in ((0, 100.0, 0), (1, 5000.0, 0), (2, 9000.0, 1)):
        history.see(view_of(CLUSTER, [[1.0, 1.0]], [left], key=[key], tenant=[tenant]))
    history.see(view_of(CLUSTER, [], []))
    assert history.everybody == [100.0, 5000.0, 9000.0]
    found = history.ends_soon(np.array([0.0, 2000.0, 2000.0]), np.array([0, 0, 1]))
    # at 0: one of three within an hour, g = 2/5, tenant 0: (1 + 0.8) / 4; at 2000: g = 2/4, (1 + 1) / 3; (0 + 1) / 3
    np.testing.assert_allclose(found, [0.45, 2.0 / 3.0, 1.0 / 3.0])


def test_the_start_is_tiresias() -> None:
    """With weights of 0, at moments in which jobs run, wait and have been served."""
    for now_s in (20_000.0, 60_000.0):
        view = _view(7, now_s)
        ours, theirs = Learned(START).allocate(view), Tiresias().allocate(view)
        check_legal(view, ours)
        assert ours.devices is not None and theirs.devices is not None
        assert ours.devices.tolist() == theirs.devices.tolist()


def test_the_gate_decides_what_is_used() -> None:
    """Shipped weights are used if and only if they were kept; a fallback is told."""
    made = shipped()
    assert len(made["weights"]) == len(FEATURES) and made["features"] == list(FEATURES)
    assert made["kept"] == (made["validation_gain"][1] > 0.0)
    view = _view(7)
    answer = Learned().allocate(view)
    expected = Learned(tuple(made["weights"])) if made["kept"] else Tiresias()
    devices = expected.allocate(view).devices
    assert answer.devices is not None and devices is not None
    assert answer.devices.tolist() == devices.tolist()
    assert [note.kind for note in answer.notes] == ([] if made["kept"] else ["fallback"])


def test_a_score_that_is_no_number_falls_back() -> None:
    answer = Learned((np.inf, -np.inf, *[0.0] * (len(FEATURES) - 2))).allocate(_view())
    assert "not finite" in answer.notes[0].text


def test_wrong_number_of_weights() -> None:
    with pytest.raises(ConfigError, match="2 weights; there are 9"):
        Learned((1.0, 2.0))
