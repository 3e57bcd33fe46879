"""Finding rules: trees on hand-made data, the teacher in NumPy, rounds in closed loop, agreement, the file."""

from dataclasses import replace

import numpy as np
import pytest

from eunomia.contract.constants import give_constants
from eunomia.core.errors import ConfigError, RecordError
from eunomia.inference.policies.sharing import WAYS
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.distill.file import as_toml, load_rules, save_rules
from eunomia.learning.distill.fitting.fidelity import kendall, top_one
from eunomia.learning.distill.fitting.fit import FitOptions, distil
from eunomia.learning.distill.fitting.formula import short_formula, slope, with_formula
from eunomia.learning.distill.fitting.grow import grow_trees
from eunomia.learning.distill.fitting.samples import Samples, join, no_samples
from eunomia.learning.distill.fitting.teacher import ByTeacher, base_terms
from eunomia.learning.distill.inputs import MAY_ASK, NAMES, PARTS
from eunomia.learning.distill.plain import decide
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.distill.text import from_text
from eunomia.learning.distill.tree import LEAF
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import WAY
from tests.learning.deployment import ToySampler, episode
from tests.learning.distill.test_rules import random_rules
from tests.learning.test_policy import random_weights

LAXITY, DONE, OWN_LOSS = (NAMES.index(name) for name in ("laxity_ratio", "done", "own_loss"))
EVEN = dict.fromkeys(PARTS, 1.0)


def samples(columns: dict[int, list[float]], target: list[float], group: list[int] | None = None) -> Samples:
    count = len(target)
    inputs = np.zeros((count, len(NAMES)))
    for feature, values in columns.items():
        inputs[:, feature] = values
    groups = np.arange(count) if group is None else np.array(group)
    return Samples(inputs, np.zeros(count), np.array(target), np.ones(count), groups)


def test_a_step_is_found_by_hand() -> None:
    rows = samples({LAXITY: [0.1, 0.2, 0.8, 0.9], DONE: [0.5, 0.4, 0.5, 0.4]}, [1.0, 1.0, 3.0, 3.0])
    tree = grow_trees({"start": rows}, 2, dict(MAY_ASK), EVEN)["start"]
    assert tree.leaves == 2 and tree.feature[0] == LAXITY and 0.2 <= tree.threshold[0] < 0.8
    assert np.allclose(tree(rows.inputs), [1.0, 1.0, 3.0, 3.0], atol=0.01)


def test_what_a_group_has_in_common_does_not_count() -> None:
    # Two decisions; the second one's targets are 100 higher throughout. Only the step of 2 within each is real.
    rows = samples(
        {LAXITY: [0.1, 0.9, 0.1, 0.9], DONE: [0.0, 0.0, 1.0, 1.0]}, [0.0, 2.0, 100.0, 102.0], [0, 0, 1, 1]
    )
    tree = grow_trees({"order": rows}, 2, dict(MAY_ASK), EVEN)["order"]
    assert tree.feature[0] == LAXITY
    assert tree(rows.inputs)[1] - tree(rows.inputs)[0] == pytest.approx(2.0, abs=0.02)


def test_the_budget_of_leaves_is_shared_and_kept() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.uniform(size=(400, len(NAMES)))
    parts = {}
    for part, wave in zip(PARTS, (3.0, 9.0, 27.0), strict=True):
        target = np.sin(wave * inputs[:, LAXITY])
        parts[part] = Samples(inputs, np.zeros(400), target, np.ones(400), np.arange(400))
    errors = []
    for leaves in (2, 8, 20, 60):
        trees = grow_trees(parts, leaves, dict(MAY_ASK), EVEN)
        assert sum(tree.leaves for tree in trees.values() if tree.leaves > 1) <= leaves
        errors.append(sum(float(((trees[p](inputs) - parts[p].target) ** 2).mean()) for p in PARTS))
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.3 * errors[0]


def test_nothing_to_explain_needs_no_tree() -> None:
    rows = samples({LAXITY: [0.1, 0.2, 0.8, 0.9]}, [0.0] * 4)
    trees = grow_trees({part: rows for part in PARTS}, 64, dict(MAY_ASK), EVEN)
    assert all(tree.leaves == 1 and tree.value[0] == 0.0 for tree in trees.values())


@pytest.mark.parametrize(
    ("kind", "way"),
    [("linear", "proportional"), ("linear", "weighted"), ("hidden", "max_min"), ("pointer", "weighted")],
)
def test_the_teacher_in_numpy_decides_as_the_compiled_one(kind: str, way: str) -> None:
    weights = random_weights(2, kind, 0.3)
    policy, e, asked = LearnedPolicy(weights, alarm=np.inf), episode(4, requests=50), []
    source = ByTeacher(weights, base_terms(weights))
    policy.block[WAY] = WAYS.index(way)

    def both(view):  # type: ignore[no-untyped-def]
        give_constants(policy, view.system)
        ours, twin = policy(view), decide(view, source, way=WAYS.index(way))
        asked.append(len(ours))
        assert ours == twin or not ours
        return ours

    simulate_problem(e.problem, both, e.options)
    assert sum(asked) > 100


def test_a_formula_and_its_rest_are_the_whole_score() -> None:
    weights = random_weights(5)
    rows = np.random.default_rng(0).uniform(size=(20, len(NAMES)))
    whole = rows[:, : len(weights.base)] @ (weights.base + weights.job)
    for terms in (base_terms(weights), {"laxity": -2.0}, {}):
        teacher = ByTeacher(weights, terms)
        assert np.allclose(
            rows[:, : len(weights.base)] @ teacher.heuristic.base + teacher.correct("order", rows, rows),
            whole,
        )


def test_a_short_formula_by_hand() -> None:
    # score = -2 laxity_ratio + 0.5 done + what all of a decision have in common: two terms say it all.
    rng = np.random.default_rng(0)
    laxity, done, group = rng.uniform(size=60), rng.uniform(size=60), np.repeat(np.arange(6), 10)
    score = -2.0 * laxity + 0.5 * done + 7.0 * group
    rows = samples({LAXITY: laxity.tolist(), DONE: done.tolist()}, score.tolist(), group.tolist())
    assert short_formula(rows, 1).keys() == {"laxity_ratio"}
    assert short_formula(rows, 8) == {"laxity_ratio": -2.0, "done": 0.5}
    again = with_formula(rows, {"laxity_ratio": -2.0})
    assert np.allclose(again.base, -2.0 * laxity) and np.allclose(again.base + again.target, score)


def test_the_slope_of_a_start_by_hand() -> None:
    # margin - gate = 0.3 - 2 laxity_ratio + 0.5 own_loss: two terms and a constant say it all, no tree of 64 leaves.
    rng = np.random.default_rng(0)
    laxity, loss = rng.uniform(size=(2, 60))
    target = 0.3 - 2.0 * laxity + 0.5 * loss
    rows = samples({LAXITY: laxity.tolist(), OWN_LOSS: loss.tolist()}, target.tolist(), list(range(60)))
    found = slope(rows, 8)
    assert np.allclose(found(rows.inputs), target) and len(found.feature) == 2
    assert len(slope(rows, 1).feature) == 1 and slope(no_samples(), 8).is_zero
    by_tree = grow_trees({"start": rows}, 64, dict(MAY_ASK), {"start": 1.0})["start"]
    assert np.abs(by_tree(rows.inputs) - target).max() > 0.01


def test_progress_is_told_step_by_step() -> None:
    told: list[str] = []
    options = FitOptions(leaves=4, rounds=1, episodes=1, share=0.2, slope=2)
    distil(random_weights(3, size=0.2), "toy", ToySampler(), options, told.append)
    assert len(told) == 1 + len(options.priorities) and all("round 1/1" in line for line in told)


def test_agreement_by_hand() -> None:
    # Groups of 3 and 2, in the teacher's order. Scores of the tree: group 0 ranks 2nd first; group 1 agrees.
    tree = from_text("if laxity_ratio <= 0.5: 1\nelse: 0", "order")
    rows = samples({LAXITY: [0.9, 0.1, 0.9, 0.1, 0.9]}, [0.0] * 5, [0, 0, 0, 1, 1])
    assert top_one(rows, tree) == 0.5
    assert kendall(rows, tree) == pytest.approx((0.0 + 1.0) / 2)  # group 0: one worse, one tie, one better


def test_groups_stay_apart_when_joined() -> None:
    rows = samples({}, [0.0] * 3, [0, 0, 1])
    assert join([rows, rows]).group.tolist() == [0, 0, 1, 2, 2, 3]


def test_rounds_in_closed_loop_leave_rules_within_the_budget() -> None:
    weights = random_weights(3, size=0.2)
    options = FitOptions(leaves=12, rounds=2, episodes=1, share=0.2, priorities=((1.0, 0.3, 1.0),))
    fitted, again = (distil(weights, "toy", ToySampler(), options) for _ in range(2))
    assert 2 <= fitted.rules.leaves <= 12 and len(fitted.values) == 4
    assert fitted.rules.stamp == again.rules.stamp
    assert all((tree.feature != LEAF).sum() < 12 for tree in fitted.rules.trees.values())


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="rules of 1 leaves"):
        FitOptions(leaves=1)
    with pytest.raises(ConfigError, match="a formula of 99 terms"):
        FitOptions(terms=99)
    with pytest.raises(ConfigError, match="a slope of 10 terms"):
        FitOptions(slope=10)
    with pytest.raises(ConfigError, match="at least one round"):
        FitOptions(rounds=0)


def test_the_file_is_read_back_and_decides_alike(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rules = replace(random_rules(3), ranges={"done": (0.0, 1.0)})
    rules = replace(rules, made={"stamp": rules.stamp, "fidelity": {"a": 0.5}, "per_seed": {"x": [1.0, 2.0]}})
    read = load_rules(save_rules(rules, tmp_path / "mine"))
    assert (
        all(np.array_equal(read.trees[part].pack(), rules.trees[part].pack()) for part in PARTS)
        and not read.edited
    )
    assert (read.terms, read.place, read.gate, read.ranges, read.made) == (
        rules.terms, rules.place, rules.gate, rules.ranges, rules.made)  # fmt: skip
    e = episode(1)
    ours, theirs = (
        simulate_problem(e.problem, RulePolicy(r), e.options).results["finish_s"] for r in (rules, read)
    )
    assert np.array_equal(ours, theirs, equal_nan=True)


def test_an_edited_file_decides_as_edited_and_says_so(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rules = RuleSet("hand", {"laxity": -1.0}, "eft", 1.0)
    path = save_rules(replace(rules, made={"stamp": rules.stamp}), tmp_path / "hand.toml")
    assert not load_rules(path).edited
    text = path.read_text().replace('order = """\n0\n', 'order = """\nif started <= 0.5: 0\nelse: +2\n')
    path.write_text(text)
    read = load_rules(path)
    assert (
        read.edited
        and read.leaves == 2
        and read.trees["place"].leaves == 1
        and not read.trees["place"].value.any()
    )


@pytest.mark.parametrize(
    ("old", "new", "error", "said"),
    [
        ('family = "eunomia-rules"', 'family = "x"', RecordError, "is not a file of rules"),
        ("format = 1", "format = 9", RecordError, "has format 9; this version reads 1"),
        ("features = 2", "features = 0", RecordError, "has feature version 0"),
        ("gate = 1.0", "gate = -1.0", ConfigError, "gate is -1"),
        ('place = "eft"', 'place = "there"', ConfigError, "placement of a learned policy 'there'"),
        ("laxity = -1.0", "laxity = nan", ConfigError, "not a finite number"),
        ("laxity = -1.0", "lax = -1.0", ConfigError, "feature of a sub-job 'lax'"),
        ('order = """\n0', 'order = """\nif demand <= 1: 0\nelse: 1', ConfigError, "feature 'demand'"),
        ('order = """\n0', 'ordr = """\n0', ConfigError, "unknown key 'ordr'"),
        ("gate = 1.0", "gate = ", RecordError, "is not a file of rules: Invalid value"),
        ("[rules]", "[rules_]", ConfigError, "KeyError 'rules'"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path, old, new, error, said) -> None:  # type: ignore[no-untyped-def]
    text = as_toml(RuleSet("hand", {"laxity": -1.0}, "eft", 1.0))
    assert old in text
    path = tmp_path / "x.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(error, match=said):
        load_rules(path)
    with pytest.raises(RecordError, match="cannot read"):
        load_rules(tmp_path / "none.toml")
