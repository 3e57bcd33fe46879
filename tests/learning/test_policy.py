"""The learned policy: nothing learned is the heuristic itself; any weights are legal; guards act and count."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.tenant_gap import tenant_order
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.observation.table import JOB, PAIR, SHARE, START
from eunomia.learning.policy.bases import base_weights, with_promise
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import INPUTS, KINDS, Weights
from tests.inference.policies.views import job, make_view
from tests.inference.strategies import Case, cases
from tests.learning.deployment import episode

GREEDY = {
    "edf+f+eft+g0.9": Greedy("edf", "eft", True, 0.9), "sjf+f": Greedy("sjf", "any_idle", True),
    "llf+f+g0.8": Greedy("llf", "any_idle", True, 0.8), "edf_bytes+f+eft": Greedy("edf_bytes", "eft", True),
    "triage_edf+f+eft+g0.9": Greedy("triage_edf", "eft", True, 0.9),
    "gap_first_sjf+f+eft": Greedy("gap_first_sjf", "eft", True),
    "shift_edf+f+eft+g1": Greedy(tenant_order("shift"), "eft", True, 1.0),
}  # fmt: skip


def random_weights(seed: int, kind: str = "linear", size: float = 1.0) -> Weights:
    rng = np.random.default_rng(seed)
    weights = replace(
        base_weights("edf+f+eft+g0.9"), job=size * rng.standard_normal(len(JOB)),
        pair=size * rng.standard_normal(len(PAIR)), start=size * rng.standard_normal(len(START)),
        share=size * rng.standard_normal(len(SHARE)),
    )  # fmt: skip
    if kind == "linear":
        return weights
    weights = weights.with_network(kind, 5, seed)
    outs = {"out": size * rng.standard_normal(5), "out_start": size * rng.standard_normal(5)}
    return replace(weights, network={**weights.network, **outs})


def outcomes(problem, policy, options, **how):  # type: ignore[no-untyped-def]
    results = simulate_problem(problem, policy, options, **how).results
    return results["outcome"], results["finish_s"]


@pytest.mark.parametrize("base", GREEDY)
def test_nothing_learned_is_the_heuristic(base: str) -> None:
    for seed in range(3):
        e = episode(seed)
        ours, theirs = outcomes(e.problem, LearnedPolicy(base_weights(base)), e.options), outcomes(
            e.problem, GREEDY[base], e.options
        )  # fmt: skip
        assert np.array_equal(ours[0], theirs[0]) and np.array_equal(ours[1], theirs[1], equal_nan=True)


def test_pressure_is_its_rule_on_chains() -> None:
    e = episode(5)
    ours = outcomes(e.problem, LearnedPolicy(base_weights("pressure+eft+g0.9")), e.options)
    theirs = outcomes(e.problem, "pressure+g0.9", e.options)
    assert np.array_equal(ours[0], theirs[0])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(periodic=False), st.integers(0, 10_000), st.sampled_from(KINDS))
def test_any_weights_give_legal_schedules_compiled_and_stepped_alike(
    case: Case, seed: int, kind: str
) -> None:
    problem, policy = case.problem(), LearnedPolicy(random_weights(seed, kind))
    compiled = simulate_problem(problem, policy, case.options)
    stepped = simulate_problem(case.problem(), policy, case.options, stepped=True)
    assert np.array_equal(compiled.results["finish_s"], stepped.results["finish_s"], equal_nan=True)
    for column in ("request", "layer", "accelerator", "start_s"):
        assert np.array_equal(compiled.subjobs[column], stepped.subjobs[column])


def test_the_network_by_hand() -> None:
    # One hidden unit reading time_left alone (weight 1), out = -3: long deadlines lose although base wants nothing.
    weights = Weights(gate=np.inf, place="any_idle").with_network("hidden", 1, 0)
    first = np.zeros((INPUTS, 1))
    first[JOB.index("time_left")] = 1.0
    net = {"W1": first, "b1": np.zeros(1), "out": np.array([-3.0]), "out_start": np.zeros(1)}
    policy = LearnedPolicy(replace(weights, network=net))
    view = make_view(policy, [job(deadline_s=9.0), job(deadline_s=4.0)], [[1.0], [1.0]])
    assert [a.request for a in policy(view)] == [1]
    turned = LearnedPolicy(replace(weights, network={**net, "out": np.array([3.0])}))
    view = make_view(turned, [job(deadline_s=9.0), job(deadline_s=4.0)], [[1.0], [1.0]])
    assert [a.request for a in turned(view)] == [0]


def test_the_pointer_sees_what_all_wait_for() -> None:
    # e_j reads the backlog-free feature 'work'; Q passes the maximum on to the start margin: one long job holds all.
    weights = Weights(gate=1.0, place="any_idle").with_network("pointer", 1, 0)
    first = np.zeros((INPUTS, 1))
    first[JOB.index("work")] = 1.0
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    net = {"W1": first, "b1": np.zeros(1), "A": zero, "M": zero, "Q": one, "b2": np.array([-0.6]), "out": np.zeros(1),
           "out_start": np.array([-9.0])}  # fmt: skip
    policy = LearnedPolicy(replace(weights, network=net))
    alike = [job(work_best_s=1.0), job(work_best_s=1.0)]  # work / scale = 1: e = 1/2, h = g(-0.1) < 0: start
    unlike = [job(work_best_s=1.0), job(work_best_s=9.0, iso_best_s=1.0)]  # max e = 0.9, h = g(0.3) > 0: hold
    facts = {"free_in_s": [0.0, 2.0], "bandwidth": 10.0}
    assert len(policy(make_view(policy, alike, [[1.0, 1.0]] * 2, **facts))) == 1
    assert policy(make_view(policy, unlike, [[1.0, 1.0]] * 2, **facts)) == []


def test_hopeless_requests_never_precede_feasible_ones() -> None:
    weights = replace(Weights(gate=np.inf), job=np.array([100.0 if n == "hopeless" else 0.0 for n in JOB]))
    policy = LearnedPolicy(weights)
    view = make_view(policy, [job(deadline_s=0.5), job(deadline_s=50.0)], [[1.0], [1.0]])
    assert [a.request for a in policy(view)] == [1]


def test_a_policy_that_always_holds_still_starts_when_nothing_runs() -> None:
    weights = replace(base_weights("edf+f+eft+g1"), start=np.full(len(START), -100.0))
    policy = LearnedPolicy(weights)
    e = episode(0, options=EngineOptions(late="run", record="requests"))
    results = simulate_problem(e.problem, policy, e.options).results
    assert np.isfinite(results["finish_s"]).all()
    assert policy.counts["forced"] > 0 and policy.counts["holds"] > 0


def test_scores_that_are_not_numbers_are_answered_by_the_heuristic() -> None:
    broken = replace(base_weights("edf+f+eft+g0.9"), job=np.full(len(JOB), np.nan))
    policy, e = LearnedPolicy(broken), episode(1)
    ours = outcomes(e.problem, policy, e.options)
    theirs = outcomes(e.problem, "edf+f+eft+g0.9", e.options)
    assert np.array_equal(ours[1], theirs[1], equal_nan=True)
    assert policy.counts["invalid"] == policy.counts["decisions"] > 0


def test_states_unlike_training_raise_the_alarm_and_bring_the_heuristic_back() -> None:
    e = episode(2, requests=600)
    weights = random_weights(3)
    strange = LearnedPolicy(
        replace(weights, low=np.full(len(JOB), 50.0), high=np.full(len(JOB), 51.0)), alarm=0.5
    )
    usual = LearnedPolicy(
        replace(weights, low=np.full(len(JOB), -1e4), high=np.full(len(JOB), 1e4)), alarm=0.5
    )
    base = outcomes(e.problem, "edf+f+eft+g0.9", e.options)[0]
    assert (outcomes(e.problem, strange, e.options)[0] == base)[200:].mean() > (
        outcomes(e.problem, usual, e.options)[0] == base
    )[200:].mean()
    assert strange.counts["alarms"] == 1 and usual.counts["alarms"] == 0 == usual.counts["strange"]


def test_the_alarm_judges_what_the_policy_decides_on() -> None:
    """Feasible sub-jobs, and features with a weight: nothing else can call a state strange."""
    only_work = replace(
        base_weights("sjf+f"), low=np.full(len(JOB), 50.0), high=np.full(len(JOB), 51.0)
    )  # reads one feature
    assert only_work.judged.tolist() == [name == "work" for name in JOB]
    learned = replace(only_work, job=np.array([0.1 * (name == "work") for name in JOB]))
    in_range = replace(
        learned, low=np.array([-50.0 * (name == "work") for name in JOB]), high=np.zeros(len(JOB)) + 1.5
    )
    for weights, deadline_s, strange in ((learned, 20.0, 1), (learned, 12.5, 0), (in_range, 20.0, 0)):
        policy = LearnedPolicy(weights)
        waiting = [job(deadline_s=deadline_s, work_best_s=work_s) for work_s in (1.0, 2.0)]
        policy(make_view(policy, waiting, [[1.0]] * 2, now_s=12.0))
        assert (policy.counts["decisions"], policy.counts["strange"]) == (1, strange)
    network = random_weights(1, "hidden")
    assert network.judged.all()


def test_a_starving_request_goes_first() -> None:
    policy = LearnedPolicy(base_weights("edf+f"), starve=10.0)
    waiting = [job(deadline_s=20.0, arrival_s=0.0, iso_best_s=1.0), job(deadline_s=14.0, arrival_s=11.0)]
    assert [a.request for a in policy(make_view(policy, waiting, [[1.0]] * 2, now_s=12.0))] == [0]
    assert policy.counts["promoted"] == 1
    patient = LearnedPolicy(base_weights("edf+f"), starve=13.0)
    assert [a.request for a in patient(make_view(patient, waiting, [[1.0]] * 2, now_s=12.0))] == [1]


def test_ranges_are_recorded_on_demand() -> None:
    policy, e = LearnedPolicy(base_weights("edf+f")), episode(0)
    simulate_problem(e.problem, policy, e.options)
    assert np.isinf(policy.seen[0]).all()
    policy.collect()
    simulate_problem(e.problem, policy, e.options)
    low, high = policy.seen
    assert (low <= high).all() and low[JOB.index("work")] > 0.0 and high[JOB.index("done")] <= 1.0


def test_a_copy_decides_alike() -> None:
    policy, e = LearnedPolicy(random_weights(4, "pointer"), starve=9.0), episode(3)
    copy = pickle.loads(pickle.dumps(policy))
    assert np.array_equal(
        outcomes(e.problem, policy, e.options)[1], outcomes(e.problem, copy, e.options)[1], equal_nan=True
    )
    assert copy.counts["decisions"] == policy.counts["decisions"] and copy.starve == 9.0


def test_our_own_promise_rules_by_hand() -> None:
    # Equal requests; hits of 40, 0.8 promised: 24 (much is missing), 32 (a miss breaks it), 40 (room for eight).
    promise = {"slo": 0.8, "sli_count": 40, "deadline_s": 50.0}
    rows = [job(gap=0.8 - hits / 40, request=n, **promise) for n, hits in enumerate((24, 32, 40))]

    def first(name: str, among: list[int]) -> int:
        policy = LearnedPolicy(base_weights(f"{name}+f+eft"))
        view = make_view(policy, [rows[n] for n in among], [[1.0]] * len(among))
        return [a.request for a in policy(view)][0]

    assert first("promise_keep", [0, 1, 2]) == 1 and first("promise_keep", [0, 2]) == 0
    assert first("promise_mend", [0, 1, 2]) == 0 and first("promise_mend", [1, 2]) == 1
    assert first("promise_level", [0, 1, 2]) == 0 and first("promise_level", [1, 2]) == 1


def test_promises_join_the_base_score() -> None:
    plain = base_weights("edf+f+eft+g0.9")
    asked = with_promise(plain, "mend", 2.0)
    terms = {name: value for name, value in zip(JOB, asked.base - plain.base, strict=True) if value}
    assert terms == {"spare": -2.0, "sinks": 2.0, "shortfall": 12.0}
    assert np.array_equal(with_promise(plain, "keep", 0.0).base, plain.base)
    with pytest.raises(UnknownNameError, match="promise 'kept'"):
        with_promise(plain, "kept", 2.0)
    with pytest.raises(ConfigError, match="strength of promises is inf"):
        with_promise(plain, "keep", np.inf)


def test_bases_and_weights_that_cannot_be_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="base order 'edff'"):
        base_weights("edff+eft")
    with pytest.raises(ConfigError, match="'pref' is not f, a placement"):
        base_weights("edf+pref")
    with pytest.raises(UnknownNameError, match="kind of network"):
        Weights(kind="deep")
    with pytest.raises(ConfigError, match="weights 'W1' are missing"):
        Weights(kind="hidden", units=3)
    with pytest.raises(ConfigError, match="give 1 to 256"):
        Weights(kind="hidden")
    with pytest.raises(ConfigError, match="gate is -1"):
        Weights(gate=-1.0)
    with pytest.raises(ConfigError, match=r"weights 'job' are of shape \(3,\)"):
        Weights(job=np.zeros(3))


def test_the_way_of_sharing_reaches_the_decision() -> None:
    e = episode(1)
    share = np.zeros(len(SHARE))
    share[SHARE.index("cut")] = -100.0  # holds whatever it may, where small demands lose the most
    policy = LearnedPolicy(replace(base_weights("edf+f+eft+g1"), share=share), alarm=np.inf)
    forced = {}
    for contention in ("weighted", "max_min"):
        before = policy.counts["forced"]
        simulate_problem(e.problem._replace(contention=contention), policy, e.options)
        forced[contention] = policy.counts["forced"] - before
    assert forced["weighted"] > 0 and forced["max_min"] == 0
