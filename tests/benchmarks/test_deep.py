"""Every learner of the page on deep learning can be begun: its changes and its training file fit together."""

from __future__ import annotations

import pytest

from benchmarks.inference.contest import FILES
from benchmarks.inference.deep import LEARNERS, file_of, of_rules, played
from eunomia.config.training import load_training


@pytest.mark.parametrize(("part", "name"), [(part, name) for part in LEARNERS for name in LEARNERS[part]])
def test_the_training_of_a_learner_can_be_read(part: str, name: str) -> None:
    config = load_training(FILES / f"{file_of(part, name)}.toml", LEARNERS[part][name])
    assert (config.algorithm is None) == (of_rules(name) or name.startswith("CMA-ES"))
    assert config.algorithm is not None or config.base == "edf+f+eft+g1"
    assert played(config, name) % config.requests == 0 < played(config, name)
