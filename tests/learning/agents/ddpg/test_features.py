"""The compiled features equal the formulas of features.py, written down once more in plain NumPy."""

import numpy as np
import pytest

from eunomia.contract.constants import give_constants
from eunomia.contract.view import View
from eunomia.inference.kernel.setup import STEP, Rules
from eunomia.inference.policies.knowledge import knowledge_of
from eunomia.inference.simulate import Engine
from eunomia.learning.agents.ddpg.episode import Exploration, explore
from eunomia.learning.agents.ddpg.features import inputs, names
from eunomia.learning.agents.ddpg.policy import RelmasPolicy, mean_layer_s
from tests.learning.agents.ddpg.actors import zero_actor
from tests.learning.deployment import episode


def plain(view: View, layer_s: float) -> np.ndarray:
    """(n, F) in order of deadline."""
    ready = view.ready[np.lexsort([view.ready["sequence"], view.ready["request"], view.ready["deadline_s"]])]
    place = {int(q): i for i, q in enumerate(view.ready["sequence"])}
    index = [place[int(q)] for q in ready["sequence"]]
    latency, demand = view.latency_s[index], view.demand_bytes_s[index]
    now, bandwidth, lanes = view.now_s, float(view.system["bandwidth_bytes_s"]), len(view.accelerators)
    left = ready["deadline_s"] - now
    known = (ready["sli_count"] > 0) & ~np.isnan(ready["sli"])
    promised = ~np.isnan(ready["slo"])
    target = np.where(promised, np.clip(ready["slo"], 0, 1), 0.0)
    feasible, laxity = ready["late"] == 0, left - ready["path_best_s"]
    one = np.unique(ready["request"], return_index=True)[1]  # chains: a request has one waiting sub-job
    assert len(one) == len(ready)
    work, data = (np.where(feasible, ready[name], 0.0) for name in ("work_best_s", "bytes_left"))
    by_time = [np.arange(len(ready)) < i for i in range(len(ready))]
    by_work = [ready["work_best_s"] < own for own in ready["work_best_s"]]
    columns = [
        np.clip(left / ready["iso_best_s"], -4, 8) / 4,
        np.where(left > 0, np.minimum(4, ready["path_best_s"] / np.where(left > 0, left, 1)), 4.0),
        np.minimum(8, (now - ready["ready_s"]) / layer_s) / 8,
        ready["layers_done"] / ready["layers_total"],
        ready["late"],
        np.clip(np.log(ready["path_best_s"] / layer_s), -3, 6) / 3,
        np.clip(np.log(ready["work_mean_s"] / layer_s), -3, 6) / 3,
        np.clip(np.log1p(ready["bytes_left"] / bandwidth / layer_s), 0, 6) / 3,
        *(
            np.minimum(3, [each[first].sum() / per for first in ahead] / np.maximum(laxity, layer_s / 2))
            for ahead in (by_time, by_work)
            for each, per in ((work, lanes), (data, bandwidth))
        ),
        *(np.clip(np.log(latency / layer_s), -4, 4) / 2).T,
        *np.minimum(4, demand / bandwidth).T,
        *np.minimum(8, np.tile(view.accelerators["free_in_s"], (len(ready), 1)) / layer_s).T / 4,
        np.full(len(ready), min(4, float(view.system["demand_bytes_s"]) / bandwidth)),
        np.full(len(ready), min(8, len(ready) / lanes) / 4),
        np.full(len(ready), ready["late"].mean()),
        promised,
        target,
        np.where(known, np.clip(ready["sli"], 0, 2), target),
        np.where(promised & known, np.clip(ready["gap"], -1, 1), 0.0),
        np.minimum(1, ready["sli_count"] / 100),
    ]
    return np.array(columns, float).T[np.argsort(ready["late"], kind="stable")]


@pytest.mark.parametrize("promises", [False, True])
def test_compiled_features_equal_the_plain_ones(promises: bool) -> None:
    made = episode(4, requests=60)
    policy = RelmasPolicy(zero_actor(4, 3, promises), period_layers=0.0)
    log, _ = explore(policy, made, Exploration(0.0), np.random.default_rng(0))
    width, layer_s = inputs(4, promises), mean_layer_s(knowledge_of(made.problem))
    engine, answer, row = Engine(made.problem, Rules(STEP), made.options), -1, 0
    give_constants(policy, engine.state["system"])
    tick = 0
    while engine.advance(answer):
        view = engine.view()
        if tick < len(log.counts) and view.now_s == log.times_s[tick]:
            n = int(log.counts[tick])
            assert n == len(view)
            expected = plain(view, layer_s)[:, :width]
            np.testing.assert_allclose(log.rows[row : row + n, :width], expected, rtol=1e-5, atol=1e-6)
            row, tick = row + n, tick + 1
        answer = engine.answer(view, policy(view))
        engine.state["system"]["memory"] = view.system["memory"]
    assert tick == len(log.counts) > 100


def test_names_and_widths_agree() -> None:
    for lanes, promises in ((1, False), (6, True)):
        assert len(names(lanes, promises)) == inputs(lanes, promises) == 15 + 3 * lanes + 5 * promises
