"""Every trainer of the small task can be begun: its changes and its training file fit together."""

from __future__ import annotations

import pytest

from benchmarks.inference.contest import FILES
from benchmarks.inference.trainers import LEARNERS
from eunomia.config.training import load_training


@pytest.mark.parametrize("name", LEARNERS)
def test_the_training_of_a_learner_can_be_read(name: str) -> None:
    config = load_training(FILES / "small.toml", LEARNERS[name])
    assert (config.algorithm is None) == name.startswith("CMA-ES")
    assert config.algorithm is not None or config.stage[0].generations == 50
