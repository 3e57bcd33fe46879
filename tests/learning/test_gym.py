"""The environments keep Gymnasium's contract, replay exactly, and schedule as the engine does."""

import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

from eunomia.core.errors import PolicyError, UnknownNameError  # noqa: E402
from eunomia.inference.simulate import simulate_problem  # noqa: E402
from eunomia.learning.encodings import ENCODINGS  # noqa: E402
from eunomia.learning.gym.batch import Batch  # noqa: E402
from eunomia.learning.gym.env import SchedulingEnv, SchedulingVectorEnv  # noqa: E402
from eunomia.learning.observation.table import JOB  # noqa: E402
from eunomia.learning.rewards import REWARDS, RewardSettings  # noqa: E402
from tests.learning.deployment import episode  # noqa: E402


def draw(seed: int):  # type: ignore[no-untyped-def]
    return episode(seed, requests=25)


def some_action(env, info, rng):  # type: ignore[no-untyped-def]
    """A random allowed action."""
    if env.action_space.__class__.__name__ == "Discrete":
        return int(rng.choice(np.flatnonzero(info["action_mask"])))
    if env.action_space.__class__.__name__ == "MultiDiscrete":
        return np.array([rng.choice(np.flatnonzero(row)) for row in info["action_mask"]])
    return rng.uniform(-1.0, 1.0, env.action_space.shape)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_environments_pass_the_checker(encoding: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(Box|render|spec).*")
        check_env(SchedulingEnv(draw, encoding, most=8), skip_render_check=True)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("reward", REWARDS)
def test_every_encoding_and_reward_reaches_the_end(encoding: str, reward: str) -> None:
    env, rng = SchedulingEnv(draw, encoding, reward, most=6), np.random.default_rng(0)
    seen, info = env.reset(seed=3)
    done, total, steps = False, 0.0, 0
    while not done:
        seen, value, done, _, info = env.step(some_action(env, info, rng))
        assert np.isfinite(value)
        total, steps = total + value, steps + 1
    assert info["hits"] + info["misses"] == 25 and steps > 25
    if reward == "R1":
        assert total == pytest.approx((info["hits"] - info["misses"]) / 25)
    with pytest.raises(Exception, match="reset"):
        env.step(0)


def test_earliest_deadline_first_by_hand_is_the_engines_rule() -> None:
    # priority_eft with the first allowed sub-job (they come in order of deadline, feasible ones first) is edf+f+eft.
    env = SchedulingEnv(draw, "priority_eft", most=64)
    for seed in range(3):
        env.reset(seed=seed)
        problem = draw(int(np.random.Generator(np.random.PCG64(seed)).integers(2**31)))
        expected = simulate_problem(problem.problem, "edf+f+eft", problem.options).results["outcome"]
        done, info = False, {}
        while not done:
            shown = env._stage.batch.shown
            hopeless = shown.jobs[0][:, JOB.index("hopeless")]
            best, key = env.action_space.n - 1, (2.0, 0)
            for i in range(64):
                if shown.rows[0][i] < 0 or not shown.can[0][i].any():
                    continue
                finish = np.where(shown.can[0][i], shown.finish_s[0][i], np.inf)
                places = np.flatnonzero(finish == finish.min())
                if shown.idle[0][places].any() and (hopeless[i], i) < key:
                    best, key = i, (hopeless[i], i)
            _, _, done, _, info = env.step(best)
        assert info["hits"] == (expected == 0).sum()


def test_equal_seeds_replay_exactly() -> None:
    runs = []
    for _ in range(2):
        env, rng = SchedulingEnv(draw, "idle_pair", "R5", most=8), np.random.default_rng(1)
        seen, info = env.reset(seed=9)
        trace = [seen["jobs"].sum()]
        for _ in range(40):
            seen, value, done, _, info = env.step(some_action(env, info, rng))
            trace += [value, seen["jobs"].sum()]
            if done:
                seen, info = env.reset()
        runs.append(trace)
    assert runs[0] == runs[1]


def test_the_vector_environment_is_single_ones_side_by_side() -> None:
    vector, rng = SchedulingVectorEnv(draw, 3, "idle_pair", "R2", most=8), np.random.default_rng(2)
    singles = [SchedulingEnv(draw, "idle_pair", "R2", most=8) for _ in range(3)]
    seen, info = vector.reset(seed=5)
    states = [env.reset(seed=5 + e) for e, env in enumerate(singles)]
    ended, resets = [False] * 3, 0
    for _ in range(320):
        for e in range(3):
            assert np.array_equal(seen["jobs"][e], states[e][0]["jobs"])
            assert np.array_equal(seen["mask"][e], states[e][0]["mask"])
        actions = [int(rng.choice(np.flatnonzero(mask))) for mask in info["action_mask"]]
        seen, rewards, done, truncated, info = vector.step(np.array(actions))
        assert vector.observation_space.contains(seen) and not truncated.any()
        for e, env in enumerate(singles):
            if ended[e]:
                states[e], ended[e], expected, resets = env.reset(), False, 0.0, resets + 1
            else:
                new, expected, ended[e], _, facts = env.step(actions[e])
                states[e] = (new, facts)
            assert rewards[e] == pytest.approx(expected) and done[e] == ended[e]
    assert resets >= 1


def test_a_policy_that_only_holds_is_overruled_and_ends() -> None:
    env = SchedulingEnv(draw, "pair", most=4)
    env.reset(seed=0)
    done, steps = False, 0
    while not done and steps < 5000:
        _, _, done, _, info = env.step(env.action_space.n - 1)
        steps += 1
    assert done and info["hits"] + info["misses"] == 25


def test_rewards_by_hand() -> None:
    columns = ("hits", "misses", "short_misses", "slowdown", "overload_s", "laxity_ratio", "crowded", "attainment",
               "spread", "duration_s", "requests")  # fmt: skip

    def tally(**values: float) -> np.ndarray:
        return np.array(
            [[values.get(name, {"duration_s": 10.0, "requests": 4.0}.get(name, 0.0)) for name in columns]]
        )

    before = tally(hits=1, crowded=0.5, spread=0.2)
    after = tally(hits=3, misses=1, short_misses=0.5, slowdown=6, overload_s=2, laxity_ratio=0.4, crowded=0.25,
                  attainment=0.5, spread=0.1)  # fmt: skip
    settings = RewardSettings(overload=0.5, laxity=0.25, gamma=0.9, kappa=2.0, tenants=3.0, spread=2.0)
    expected = {"R1": 0.25, "R2": 0.25 - 0.5 * 0.2, "R3": 0.15 + 0.1, "R4": 0.25 - 0.9 * 0.25 + 0.5,
                "R5": (2 - (1 + 2 * 0.5)) / 4 + 1.5, "R6": -1.5 + 2.0 * 0.1}  # fmt: skip
    for name, value in expected.items():
        assert REWARDS[name](before, after, settings)[0] == pytest.approx(value), name


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="action encoding 'pairs'"):
        SchedulingEnv(draw, "pairs")
    with pytest.raises(UnknownNameError, match="reward 'R9'"):
        SchedulingEnv(draw, reward="R9")


@pytest.mark.parametrize("row", [-1, 4, 1 << 40])
def test_a_row_that_the_observation_lacks_is_refused(row: int) -> None:
    begun = episode(0, requests=6)
    batch = Batch(1, 4, len(begun.problem.type_of))
    batch.start(0, begun)
    with pytest.raises(PolicyError, match="what is not possible"):
        batch.step({0: [(row, 0)]})
