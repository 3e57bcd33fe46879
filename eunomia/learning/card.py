"""A checkpoint of a learned policy: tensors in ``NAME.safetensors``, what they mean in the card ``NAME.json``.

The card holds what the numbers mean (features and their version, network) and their evaluation. It also holds
their origin: training, hardware, loads, seeds, versions, processor time. It has the SHA-256 of the tensor
file and of itself. Every family of policies is one line of ``FAMILIES``: a class with ``FAMILY``,
``VERSION``, ``parts()`` and ``of_card(card, tensors)``. Refused, with the reason: files that are missing, cut
short or changed, another format, family or feature version, numbers that are not finite. Nothing in them is
code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.core.atomic import write_bytes, write_text
from eunomia.core.errors import ConfigError, RecordError

FORMAT = 1
Card = dict[str, Any]  # parsed JSON
FAMILIES = {
    "eunomia": "eunomia.learning.policy.checkpoint:Checkpoint",
    "relmas": "eunomia.learning.agents.ddpg.policy:RelmasPolicy",
    "pointer": "eunomia.learning.agents.pointer_policy:PointerPolicy",
    "deferrable": "eunomia.learning.agents.deferrable.policy:Deferring",
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


class Saved(Protocol):
    """A policy that can be saved."""

    FAMILY: str
    VERSION: int  # of the features

    @property
    def name(self) -> str:
        """What the card calls it."""

    def parts(self) -> Parts:
        """What its card says of it."""


def save(policy: Saved, path: str | Path, facts: Mapping[str, Any] | None = None) -> Path:
    """Write both files; ``path`` ends in .json or in nothing. ``facts``: more for the card. Raises OutputError."""
    from safetensors.numpy import save as packed

    place, parts = card_path_of(path), policy.parts()
    content = packed({key: np.array(value, np.float64, order="C") for key, value in parts.tensors.items()})
    card = {
        "format": FORMAT,
        "family": policy.FAMILY,
        "name": policy.name,
        "features": {"version": policy.VERSION, **parts.features},
        "policy": dict(parts.policy),
        "sha256": hashlib.sha256(content).hexdigest(),
        **(facts or {}),
    }
    card = json.loads(json.dumps(card))
    write_bytes(place.with_suffix(".safetensors"), content)
    write_text(place, json.dumps({**card, "card_sha256": card_hash(card)}, indent=1) + "\n")
    return place


def load(path: str | Path, family: str | None = None) -> Any:
    """The policy of a checkpoint; ``family``: refuse others. Raises RecordError with the reason for refusal."""
    card = read_card(path, family)
    kind = _class_of(card["family"])
    try:
        return kind.of_card(card, read_tensors(path, card, getattr(kind, "BOUNDS", ())))
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{card_path_of(path)}: {error}") from None


def read_card(path: str | Path, family: str | None = None) -> Card:
    """The card alone, checked. Raises RecordError."""
    place = card_path_of(path)
    try:
        card = json.loads(read_file(place))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(
            f"{place} is not a policy's checkpoint: {error}; it was damaged or cut short"
        ) from None
    found = card.get("family") if isinstance(card, dict) else None
    if found not in FAMILIES or (family is not None and found != family):
        wanted = f"a '{family}' policy" if family else f"a policy of a known family ({', '.join(FAMILIES)})"
        raise RecordError(f"{place} is not a checkpoint of {wanted}")
    if card.get("format") != FORMAT:
        raise RecordError(f"{place} has format {card.get('format')}; this version reads format {FORMAT}")
    stated = card.pop("card_sha256", None)
    if stated != card_hash(card):
        raise RecordError(
            f"{place} was changed after it was written (SHA-256 differs); train the policy again"
        )
    kind, version = _class_of(found), card["features"]["version"]
    if version != kind.VERSION and not getattr(kind, "reads", lambda card: False)(card):
        raise RecordError(
            f"{place} was trained on feature version {version}, this version computes {kind.VERSION}; "
            "train it again with: eunomia train"
        )
    return {**card, "card_sha256": stated}


def facts_of(card: Card) -> Card:
    """What a card says beside the policy: training, hardware, evaluation."""
    return {key: value for key, value in card.items() if key not in KNOWN}


def read_tensors(path: str | Path, card: Card, bounds: tuple[str, ...] = ()) -> dict[str, Floats]:
    """The tensors of a checked card; those named in ``bounds`` may be infinite. Raises RecordError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpacked

    place, content = tensor_path_of(path), read_content(path, card)
    try:
        tensors = {name: np.array(value, np.float64) for name, value in unpacked(content).items()}
    except (SafetensorError, ValueError) as error:
        raise RecordError(f"{place} cannot be read: {error}") from None
    for name, value in tensors.items():
        if np.isnan(value).any() or (name not in bounds and np.isinf(value).any()):
            raise RecordError(
                f"{place}: weights '{name}' hold a value that is not a finite number; train it again"
            )
    return tensors


def read_content(path: str | Path, card: Card) -> bytes:
    """The file of tensors as it was written with a checked card. Raises RecordError."""
    place = tensor_path_of(path)
    content = read_file(place)
    if hashlib.sha256(content).hexdigest() != card["sha256"]:
        raise RecordError(
            f"{place} is not the file that its card was written for (SHA-256 differs): it was changed or cut short; "
            "fetch or train the policy again"
        )
    return content


def tensor_path_of(path: str | Path) -> Path:
    """``x``, ``x.json`` or ``x.safetensors`` -> ``x.safetensors``."""
    return card_path_of(path).with_suffix(".safetensors")


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
        raise RecordError(
            f"cannot read {path}: {error.strerror}; a checkpoint is a .json file beside a .safetensors file"
        ) from None


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
            raise ConfigError(
                f"{what} weights '{name}' hold a value that is not a finite number; train it again"
            )


def _class_of(family: str) -> Any:
    module, _, name = FAMILIES[family].partition(":")
    return getattr(import_module(module), name)
