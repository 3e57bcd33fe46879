"""Evolution, objectives, and a training run that is killed, resumed and compared bit by bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from eunomia.config.training import StageConfig
from eunomia.core.errors import ConfigError, RecordError, UnknownNameError
from eunomia.engines.crew import Crew
from eunomia.inference.kernel.layout import DROPPED, HIT, LATE
from eunomia.learning.agents import Context, make_agent
from eunomia.learning.agents.cmaes import Search
from eunomia.learning.agents.codec import Codec
from eunomia.learning.agents.evolution import Evolution, new_evolution
from eunomia.learning.loop import Plan, Progress, Tell, Trained, paired_error, train
from eunomia.learning.objectives import OBJECTIVES, check_objective, task_of
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.weights import Weights
from eunomia.learning.state import FILE, read_state
from tests import children
from tests.learning.deployment import ToySampler, episode, gain_of
from tests.patience import until

START = base_weights("edf+f+eft+g1.0")
STAGE = StageConfig(generations=4, population=4, episodes=2, validate_every=2)
TASK = task_of(ToySampler(), {"hit_rate": 1.0})


def search(stage: StageConfig = STAGE, start: Weights = START, seed: int = 3) -> Search:
    made = make_agent("evolution", stage, Context(TASK, seed, start))
    assert isinstance(made, Search)
    return made


def trained(
    stage: StageConfig = STAGE,
    start: Weights = START,
    folder: Path | None = None,
    workers: Crew = 1,
    who: str = "x",
    tell: Tell | None = None,
    seed: int = 3,
) -> Trained:
    plan = Plan(stage.generations, stage.validate_every, who)
    return train(search(stage, start, seed), plan, folder, workers, tell)


def changed(**keys: object) -> StageConfig:
    return StageConfig(**{**STAGE.model_dump(), **keys})  # type: ignore[arg-type]


def rosenbrock(x: np.ndarray) -> np.ndarray:
    """A bent valley, 0 at (1, ..., 1)."""
    return np.sum(100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1.0 - x[:, :-1]) ** 2, axis=1)


@pytest.mark.parametrize("diagonal", [False, True])
def test_evolution_finds_the_optimum_of_a_stretched_sphere(diagonal: bool) -> None:
    scale = np.logspace(0, 3, 8)
    evolution = new_evolution(np.full(8, 2.0), 1.0, 10, 0, diagonal)
    for _ in range(350):
        x = evolution.ask()
        evolution = evolution.tell(x, -np.sum(scale * (x - 1.0) ** 2, axis=1))
    assert np.abs(evolution.mean - 1.0).max() < 1e-4


def test_evolution_needs_as_many_generations_as_the_reference_implementation() -> None:
    cma = pytest.importorskip("cma")
    ours, theirs = [], []
    for seed in range(3):
        evolution, count = new_evolution(np.zeros(5), 0.5, 8, seed), 0
        while rosenbrock(evolution.mean[None])[0] > 1e-6 and count < 2000:
            x = evolution.ask()
            evolution, count = evolution.tell(x, -rosenbrock(x)), count + 1
        ours.append(count)
        options = {"seed": seed + 1, "popsize": 8, "verbose": -9, "CMA_active": False, "ftarget": 1e-6}
        reference = cma.CMAEvolutionStrategy(np.zeros(5), 0.5, options)
        while not reference.stop().get("ftarget") and reference.countiter < 2000:
            x = np.array(reference.ask())
            reference.tell(list(x), list(rosenbrock(x)))
        theirs.append(reference.countiter)
    assert max(ours) < 2000 and np.mean(ours) < 1.5 * np.mean(theirs)


def test_evolution_survives_being_written_down_and_values_that_are_no_numbers() -> None:
    evolution = new_evolution(np.zeros(4), 0.5, 6, 1)
    x = evolution.ask()
    evolution = evolution.tell(x, np.array([1.0, np.nan, 3.0, 2.0, np.nan, 0.0]))
    copy = Evolution.from_arrays(evolution.arrays())
    assert np.array_equal(evolution.ask(), copy.ask()) and np.isfinite(evolution.mean).all()


def test_objectives_by_hand() -> None:
    e = episode(0, requests=40)
    results = np.zeros(40, [("outcome", "i8"), ("arrival_s", "f8"), ("finish_s", "f8")])
    results["arrival_s"] = e.problem.jobs.arrival_s
    results["outcome"] = np.where(np.arange(40) % 2 == 0, HIT, DROPPED)
    e = replace(e, warmup_s=float(results["arrival_s"][20]))
    jobs = e.problem.jobs
    hits, gaps = {}, []
    for k in range(20, 40):
        hits.setdefault(int(jobs.pair[k]), []).append(k % 2 == 0)
    for pair, hit in hits.items():
        gaps.append(jobs.slo_target[pair] - np.mean(hit))
    assert OBJECTIVES["hit_rate"](results, e) == 0.5
    assert OBJECTIVES["attainment"](results, e) == pytest.approx(np.mean(np.array(gaps) <= 1e-12))
    assert OBJECTIVES["shortfall"](results, e) == pytest.approx(-np.mean(np.maximum(gaps, 0)))
    assert OBJECTIVES["max_min"](results, e) == pytest.approx(-max(max(gaps), 0.0))
    tenants: dict[int, list[bool]] = {}
    for k in range(20, 40):
        tenants.setdefault(int(jobs.tenant_of[jobs.pair[k]]), []).append(k % 2 == 0)
    assert OBJECTIVES["fairness"](results, e) == pytest.approx(
        -np.std([np.mean(x) for x in tenants.values()])
    )
    iso_s = e.problem.graph.iso_best_s[jobs.model_of[jobs.pair]]
    results["finish_s"] = results["arrival_s"] + 3.0 * iso_s  # half of them are done, in three isolated times
    assert OBJECTIVES["slowdown"](results, e) == pytest.approx(-1.5)
    results["outcome"] = LATE
    assert OBJECTIVES["attainment"](results, e) == 0.0 and OBJECTIVES["slowdown"](
        results, e
    ) == pytest.approx(-3.0)


def test_objectives_and_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="objective 'hits'"):
        check_objective({"hits": 1.0})
    with pytest.raises(ConfigError, match="must weigh at least one"):
        check_objective({})
    for key, value in {"generations": 0, "sigma": 0.0, "stage": "deep"}.items():
        with pytest.raises(ValueError, match=key):
            changed(**{key: value})
    with pytest.raises(ConfigError, match="population is 3"):
        search(changed(population=3))
    with pytest.raises(ConfigError, match="cannot train a hidden policy"):
        search(start=START.with_network("hidden", 2, 1))
    with pytest.raises(UnknownNameError, match="trained tensor 'W9'"):
        Codec(START, ("W9",), False)
    with pytest.raises(ConfigError, match="at least 1"):
        Plan(0, 1)


def test_targets_are_drawn_for_every_pair() -> None:
    drawn = episode(1).with_targets(0.5, 0.95, np.random.default_rng(0))
    targets = drawn.problem.jobs.slo_target
    assert len(np.unique(targets)) == len(targets) and targets.min() >= 0.5 and targets.max() <= 0.95
    assert (drawn.problem.jobs.slo_kind == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_training_gains_and_never_returns_worse_than_its_start(seed: int) -> None:
    """The last deadline first misses one request in seven more than the first: far more than a seed's chance."""
    last_first = replace(START, base=-START.base)
    done = trained(changed(generations=8, population=8, episodes=3), last_first, seed=seed)
    assert gain_of(done) > 0.05 > paired_error(done.values - done.start_values) > 0.0 and len(done.curve) == 8
    assert gain_of(trained(changed(generations=1, sigma=50.0))) >= 0.0


@pytest.mark.parametrize("stage", ["hidden", "pointer"])
def test_later_stages_begin_with_the_earlier_one(stage: str) -> None:
    start = START.with_network(stage, 3, 1)
    settings = changed(stage=stage, diagonal=True, generations=2)
    done = trained(settings, start)
    assert search(settings, start).weights(done.tensors).kind == stage and gain_of(done) >= 0.0


def test_a_stage_of_sharing_moves_the_price_of_a_start_and_the_gate_alone() -> None:
    start = replace(START, job=np.linspace(-0.1, 0.1, len(START.job)))
    settings = changed(stage="sharing", generations=2)
    codec = search(settings, start).codec
    assert codec.size == len(start.share) + 1
    moved = codec.decode(np.ones(codec.size))
    names = {n for n, v in moved.tensors().items() if not np.array_equal(v, start.tensors()[n])}
    assert names == {"share"} and moved.gate != start.gate
    assert gain_of(trained(settings, start)) >= 0.0


def test_a_whole_stage_moves_all_that_a_linear_policy_has() -> None:
    codec = search(changed(stage="whole")).codec
    moved = codec.decode(np.ones(codec.size))
    names = {n for n, v in moved.tensors().items() if not np.array_equal(v, START.tensors()[n])}
    assert names == {"job", "pair", "start", "share"} and moved.gate != START.gate


def test_workers_and_interruptions_do_not_change_a_bit(tmp_path: Path) -> None:
    last_first = replace(START, base=-START.base)  # so that any machine's search finds something better
    whole = trained(start=last_first)

    def stop(progress: Progress) -> None:
        if progress.entry["iteration"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(start=last_first, folder=tmp_path, tell=stop)
    resumed = trained(start=last_first, folder=tmp_path, workers=2)
    assert np.array_equal(whole.tensors["x"], resumed.tensors["x"]) and whole.tensors["x"].any()
    with pytest.raises(RecordError, match="other settings"):
        trained(start=last_first, folder=tmp_path, who="y")
    for wrote, said in (({"settings": "x", "notes": "{}"}, "none is noted"), ({"version": "0.0.9"}, "0.0.9")):
        save_file({"values": np.zeros(1)}, tmp_path / FILE, wrote)
        with pytest.raises(RecordError, match=f"begun by an earlier version of eunomia \\({said}"):
            trained(start=last_first, folder=tmp_path)
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:100])
    with pytest.raises(RecordError, match="cannot be read"):
        trained(start=last_first, folder=tmp_path)


LONG = """
import sys
from pathlib import Path
from tests.learning.test_training import changed, trained
if __name__ == "__main__":
    trained(changed(generations=100_000), folder=Path(sys.argv[1]))
"""


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    with children.started(children.python("-c", LONG, tmp_path)) as process:
        until((tmp_path / FILE).exists, process)
        process.kill()
    reached = read_state(tmp_path, "x")
    assert reached is not None
    total = changed(generations=reached.iteration + 2)
    np.testing.assert_array_equal(trained(total, folder=tmp_path).tensors["x"], trained(total).tensors["x"])
