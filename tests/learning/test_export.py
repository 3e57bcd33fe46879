"""The exported network gives the scores of the compiled one, for sets of any size."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE
from eunomia.learning.policy.decide import score_all, start_margin
from eunomia.learning.policy.weights import KINDS
from eunomia.study.learning.policy_onnx import write_onnx
from tests.learning.test_policy import random_weights


@pytest.mark.parametrize("kind", KINDS)
def test_scores_agree_at_two_set_sizes(kind: str, tmp_path: Path) -> None:
    weights = replace(random_weights(6, kind), centre=np.full(len(JOB), 0.2), spread=np.full(len(JOB), 1.7))
    write_onnx(weights, tmp_path / "policy.onnx")
    model = onnx.load(tmp_path / "policy.onnx")
    onnx.checker.check_model(model)
    network, block, rng = ReferenceEvaluator(model), weights.pack(), np.random.default_rng(0)
    for count in (1, 7, 64):
        jobs, overall = 3.0 * rng.standard_normal((count, len(JOB))), rng.standard_normal(len(GLOBAL))
        score, margin = np.empty(count), np.empty(count)
        assert score_all(jobs, overall, block, True, score, margin)
        expected = [
            margin[i]
            + start_margin(0.0, 1.0, jobs[i], np.zeros(len(PAIR)), np.zeros(len(SHARE)), overall, block)
            for i in range(count)
        ]
        found_score, found_start = network.run(None, {"jobs": jobs, "overall": overall})
        np.testing.assert_allclose(found_score, score, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found_start, expected, rtol=1e-9, atol=1e-9)
