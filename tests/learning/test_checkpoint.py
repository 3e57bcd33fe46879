"""A checkpoint comes back as it was, and is refused when anything about it is wrong."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eunomia.config import load_scenario
from eunomia.core.errors import ConfigError, RecordError
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.card import card_hash, card_path_of
from eunomia.learning.card import load as load_card
from eunomia.learning.load import load_policy
from eunomia.learning.policy import checkpoint as ck
from eunomia.learning.policy.checkpoint import Checkpoint, load, save
from eunomia.learning.policy.weights import Weights
from eunomia.study.inference.policy import resolve_policy
from eunomia.study.learning.scenarios import scenario_episode
from tests.learning.test_policy import random_weights

FACTS = {"training": {"seed": 3, "cpu_s": 1.5}, "evaluation": {"gain": 0.01}}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return save(Checkpoint("toy", random_weights(1, "pointer"), FACTS), tmp_path / "toy")


def test_it_comes_back_as_it_was(kept: Path) -> None:
    found, weights = load(kept), random_weights(1, "pointer")
    assert found.facts == FACTS and found.name == "toy"
    assert (found.weights.kind, found.weights.place, found.weights.gate) == ("pointer", "eft", 0.9)
    for name, tensor in weights.tensors().items():
        assert np.array_equal(found.weights.tensors()[name], tensor), name
    assert np.array_equal(found.weights.pack(), weights.pack())


def test_a_linear_policy_of_version_1_is_read_with_nothing_learned_about_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, old = random_weights(1), (28, 23)
    with monkeypatch.context() as then:
        then.setattr(Checkpoint, "VERSION", 1)
        then.setattr(ck, "JOB", ck.JOB[: old[0]])
        then.setattr(ck, "START", ck.START[: old[1]])
        then.setattr(Weights, "tensors", lambda self: shortened(self, *old))
        path = save(Checkpoint("old", weights), tmp_path / "old")
    found = load(path).weights
    for name in ("base", "job", "start"):
        size = old[0] if name != "start" else old[1]
        assert np.array_equal(getattr(found, name)[:size], getattr(weights, name)[:size]), name
        assert not getattr(found, name)[size:].any()
    assert found.low[-1] == -np.inf and found.spread[-1] == 1.0


def shortened(weights: Weights, job: int, start: int) -> dict[str, np.ndarray]:
    """Tensors as version 1 had them."""
    sizes = {"start": start, "pair": len(weights.pair)}
    names = ("base", "job", "low", "high", "centre", "spread", "pair", "start")
    return {name: getattr(weights, name)[: sizes.get(name, job)] for name in names}


def test_a_policy_without_share_features_is_read_with_nothing_learned_about_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = random_weights(1)
    with monkeypatch.context() as then:
        then.setattr(Weights, "tensors", lambda self: shortened(self, len(self.job), len(self.start)))
        path = save(Checkpoint("old", weights), tmp_path / "old")
    card = {key: value for key, value in json.loads(path.read_text()).items() if key != "card_sha256"}
    del card["features"]["share"]
    path.write_text(json.dumps({**card, "card_sha256": card_hash(card)}))
    found = load(path).weights
    assert np.array_equal(found.start, weights.start) and not found.share.any()


def test_a_policy_without_gate_keeps_none(tmp_path: Path) -> None:
    save(Checkpoint("free", replace(random_weights(1), gate=np.inf)), tmp_path / "free")
    assert load(tmp_path / "free.safetensors").weights.gate == np.inf


def test_names_of_its_files(tmp_path: Path) -> None:
    for given in ("x", "x.json", "x.safetensors"):
        assert card_path_of(tmp_path / given) == tmp_path / "x.json"
    assert card_path_of("v1.2") == Path("v1.2.json")


def test_a_changed_or_shortened_file_is_refused(kept: Path) -> None:
    tensors = kept.with_suffix(".safetensors")
    whole = tensors.read_bytes()
    tensors.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match="SHA-256 differs"):
        load(kept)
    tensors.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(RecordError, match="SHA-256 differs"):
        load(kept)
    tensors.unlink()
    with pytest.raises(RecordError, match="cannot read"):
        load(kept)


def test_a_changed_or_shortened_card_is_refused(kept: Path) -> None:
    text = kept.read_text()
    kept.write_text(text.replace('"gain": 0.01', '"gain": 0.9'))
    with pytest.raises(RecordError, match="was changed after it was written"):
        load(kept)
    kept.write_text(text[:50])
    with pytest.raises(RecordError, match="damaged or cut short"):
        load(kept)
    kept.write_text("[]")
    with pytest.raises(RecordError, match="is not a checkpoint"):
        load(kept)


def test_other_features_or_formats_are_refused(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpoint, "VERSION", 99)
    with pytest.raises(RecordError, match="trained on feature version 2, this version computes 99"):
        load(kept)
    monkeypatch.undo()
    monkeypatch.setattr(ck, "SHARE", (*ck.SHARE, "new"))
    with pytest.raises(RecordError, match="trained on share features own_loss.*this version computes.*new"):
        load(kept)
    monkeypatch.undo()
    card = json.loads(kept.read_text())
    kept.write_text(json.dumps({**card, "format": 7}))
    with pytest.raises(RecordError, match="format 7; this version reads format 1"):
        load(kept)


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    broken = replace(random_weights(1), job=np.full(len(ck.JOB), np.nan))
    with pytest.raises(RecordError, match="'job' hold a value that is not a finite number"):
        load(save(Checkpoint("broken", broken), tmp_path / "broken"))


CARDS = Path(__file__).parent / "cards"
DECISIONS = json.loads((CARDS / "decisions.json").read_text())


@pytest.mark.parametrize("name", DECISIONS)
def test_cards_of_every_family_that_were_written_before_decide_as_they_did(name: str) -> None:
    """Outcomes of every request under cards and shipped policies, as the version that wrote them had them."""
    shipped = name.startswith("shipped ")
    scenario = load_scenario(
        CARDS / ("defer.toml" if name == "deferrable" else "six.toml" if shipped else "slo.toml")
    )
    made = scenario_episode(scenario, 7, 200) if shipped else scenario_episode(scenario, 5, 60)
    bare = re.sub(r"^eunomia\((.*)\)$", r"eunomia(\1,rehearse=0)", name.removeprefix("shipped "))
    policy = resolve_policy(bare if shipped else str(CARDS / f"{name}.json"))  # no rehearsal, as then
    results = simulate_problem(made.problem, policy, made.options).results
    assert results["outcome"].tolist() == DECISIONS[name]


@pytest.mark.parametrize("name", ["ddpg", "td3"])
def test_an_lstm_that_was_trained_on_other_features_is_refused_by_their_version(name: str) -> None:
    with pytest.raises(RecordError, match="was trained on feature version 1, this version computes 2"):
        resolve_policy(str(CARDS / f"{name}.json"))


@pytest.mark.parametrize("name", ["ppo", "sac", "bdq", "bdq2"])
def test_a_policy_that_added_to_another_rule_is_refused_by_the_version_of_its_features(name: str) -> None:
    with pytest.raises(RecordError, match=r"feature version 2, this version computes 3; train it again with"):
        resolve_policy(str(CARDS / f"{name}.json"))


def test_a_card_of_the_placement_environment_that_was_written_before_is_read() -> None:
    assert load_card(CARDS / "a2c").units == 8
    with pytest.raises(ConfigError, match="cannot schedule layers"):
        load_policy(CARDS / "a2c.json")
