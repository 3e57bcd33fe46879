"""A checkpoint of a learned policy: tensors in ``NAME.safetensors``, what they mean in the card ``NAME.json``.

The card holds what the numbers mean (features and their version, network), their evaluation and their origin:
training, hardware, loads, seeds, versions, processor time; and the SHA-256 of the tensor file and of itself. Every
family of policies is one line of ``FAMILIES``: a subclass of :class:`Family`. Refused, with the reason: files that are
missing, cut short or changed, another format, family or feature version, numbers that are not finite. Nothing in them
is code.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.core.atomic import write_bytes, write_text
from eunomia.core.errors import ConfigError, RecordError

FORMAT = 1
NOT_FINITE = "weights '{}' hold a value that is not a finite number; train it again"
Card = dict[str, Any]  # parsed JSON
FAMILIES = {
    "eunomia": "eunomia.learning.policy.checkpoint:Checkpoint",
    "relmas": "eunomia.learning.agents.ddpg.policy:RelmasPolicy",
    "sets": "eunomia.learning.agents.ddpg.sets:SetPolicy",
    "pointer": "eunomia.learning.agents.pointer_policy:PointerPolicy",
    "deferrable": "eunomia.learning.agents.deferrable:DeferrableStarts",
    "placement": "eunomia.learning.agents.a3c.policy:PreferencePlacement",
    "branching": "eunomia.learning.agents.bdq.policy:BranchingPolicy",
}
KNOWN = ("format", "family", "name", "features", "policy", "sha256", "card_sha256")  # the rest are facts


@dataclass(frozen=True, eq=False)
class Parts:
    """What a policy puts on its card: names of features, the network, and its tensors."""

    features: Mapping[str, Any]
    policy: Mapping[str, Any]
    tensors: Mapping[str, npt.NDArray[Any]]


class Family(ABC):
    """What every family of policies declares; its members are saved with ``parts`` and read back by ``of_card``."""

    FAMILY: ClassVar[str]
    VERSION: ClassVar[int]  # of the features
    BOUNDS: ClassVar[tuple[str, ...]] = ()  # tensors that may be infinite
    ELSEWHERE: ClassVar[str] = ""  # why no member answers Views; empty: they do
    name: str  # what the card calls it

    @abstractmethod
    def parts(self) -> Parts:
        """What its card says of it."""

    @classmethod
    @abstractmethod
    def of_card(cls, card: Card, tensors: dict[str, Floats]) -> Self:
        """The policy of a checked card."""

    @staticmethod
    def reads(card: Card) -> bool:
        """Whether a card of another version of the features can be read."""
        return False


def save(policy: Family, path: str | Path, facts: Mapping[str, Any] | None = None) -> Path:
    """Write both files; ``path`` ends in .json or in nothing. ``facts``: more for the card. Raises OutputError."""
    from safetensors.numpy import save as packed

    place, parts = card_path_of(path), policy.parts()
    content = packed({key: np.array(value, np.float64, order="C") for key, value in parts.tensors.items()})
    card: Card = {"format": FORMAT, "family": policy.FAMILY, "name": policy.name}
    card["features"] = {"version": policy.VERSION, **parts.features}
    card |= {"policy": dict(parts.policy), "sha256": hashlib.sha256(content).hexdigest(), **(facts or {})}
    card = json.loads(json.dumps(card))
    write_bytes(place.with_suffix(".safetensors"), content)
    write_text(place, json.dumps({**card, "card_sha256": card_hash(card)}, indent=1) + "\n")
    return place


def load(path: str | Path, family: str | None = None) -> Any:
    """The policy of a checkpoint; ``family``: refuse others. Raises RecordError with the reason for refusal."""
    card = read_card(path, family)
    kind, content = _class_of(card["family"]), read_content(path, card)
    try:
        return kind.of_card(card, _tensors(content, kind.BOUNDS))
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{card_path_of(path)}: {error}") from None


def read_card(path: str | Path, family: str | None = None) -> Card:
    """The card alone, checked. Raises RecordError."""
    place = card_path_of(path)
    try:
        card = json.loads(read_file(place))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{place} is no checkpoint: {error}; it was damaged or cut short") from None
    found = card.get("family") if isinstance(card, dict) else None
    if found not in FAMILIES or (family is not None and found != family):
        wanted = f"a '{family}' policy" if family else f"a policy of a known family ({', '.join(FAMILIES)})"
        raise RecordError(f"{place} is not a checkpoint of {wanted}")
    if card.get("format") != FORMAT:
        raise RecordError(f"{place} has format {card.get('format')}; this version reads format {FORMAT}")
    stated = card.pop("card_sha256", None)
    if stated != card_hash(card):
        raise RecordError(f"{place} was changed after it was written (SHA-256 differs); train it again")
    kind, version = _class_of(found), card["features"]["version"]
    if version != kind.VERSION and not kind.reads(card):
        computed = f"feature version {version}, this version computes {kind.VERSION}"
        raise RecordError(f"{place} was trained on {computed}; train it again with: eunomia train")
    return {**card, "card_sha256": stated}


def facts_of(card: Card) -> Card:
    """What a card says beside the policy: training, hardware, evaluation."""
    return {key: value for key, value in card.items() if key not in KNOWN}


def read_content(path: str | Path, card: Card) -> bytes:
    """The file of tensors as it was written with a checked card. Raises RecordError."""
    place = card_path_of(path).with_suffix(".safetensors")
    content = read_file(place)
    if hashlib.sha256(content).hexdigest() != card["sha256"]:
        raise RecordError(
            f"{place} is not the file that its card was written for (SHA-256 differs): it was changed or cut short; "
            "fetch or train the policy again"
        )
    return content


def card_path_of(path: str | Path) -> Path:
    """``x``, ``x.json`` or ``x.safetensors`` -> ``x.json``."""
    path = Path(path)
    if path.suffix == ".json":
        return path
    return path.with_suffix(".json") if path.suffix == ".safetensors" else Path(f"{path}.json")


def card_hash(card: Card) -> str:
    """SHA-256 over a card's content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def read_file(path: Path) -> bytes:
    """A card or its tensors; raises RecordError."""
    try:
        return path.read_bytes()
    except OSError as error:
        remedy = "a checkpoint is a .json file beside a .safetensors file"
        raise RecordError(f"cannot read {path}: {error.strerror}; {remedy}") from None


def check_tensors(
    what: str, tensors: Mapping[str, Floats], shapes: Mapping[str, tuple[int, ...]], finite: bool = False
) -> None:
    """Raises ConfigError for a tensor that is missing, of a wrong shape, or (if asked) not finite."""
    for name, shape in shapes.items():
        value = tensors.get(name)
        if value is None or value.shape != shape:
            found = "missing" if value is None else f"of shape {value.shape}"
            raise ConfigError(f"{what} weights '{name}' are {found}; shape {shape} is needed")
        if finite and not np.isfinite(value).all():
            raise ConfigError(f"{what} {NOT_FINITE.format(name)}")


def _tensors(content: bytes, bounds: tuple[str, ...]) -> dict[str, Floats]:
    """The tensors of a file; those named in ``bounds`` may be infinite. Raises ConfigError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpacked

    try:
        tensors = {name: np.array(value, np.float64) for name, value in unpacked(content).items()}
    except SafetensorError as error:
        raise ConfigError(f"its tensors cannot be read: {error}") from None
    for name, value in tensors.items():
        if np.isnan(value).any() or (name not in bounds and np.isinf(value).any()):
            raise ConfigError(NOT_FINITE.format(name))
    return tensors


def _class_of(family: str) -> type[Family]:
    module, _, name = FAMILIES[family].partition(":")
    found: type[Family] = getattr(import_module(module), name)
    return found
