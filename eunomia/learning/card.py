"""A learned policy of any family on disk: tensors in ``NAME.safetensors``, the card in ``NAME.json``.

Refused, with the reason: files that are missing, cut short or changed (SHA-256), another format, family or feature
version, numbers that are not finite. Nothing in them is code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.atomic import write_bytes, write_text
from eunomia.core.errors import RecordError

FORMAT = 1
Floats = npt.NDArray[np.float64]


def write_card(
    path: str | Path, family: str, name: str, features: Mapping[str, Any], policy: Mapping[str, Any],
    tensors: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Write both files; ``path`` ends in .json or in nothing. ``features``: version and names. Raises OutputError."""
    from safetensors.numpy import save

    place = card_path_of(path)
    content = save({key: np.array(value, np.float64, order="C") for key, value in tensors.items()})
    card = {
        "format": FORMAT, "family": family, "name": name, "features": dict(features), "policy": dict(policy),
        "sha256": hashlib.sha256(content).hexdigest(), **(facts or {}),
    }  # fmt: skip
    card = json.loads(json.dumps(card))
    write_bytes(place.with_suffix(".safetensors"), content)
    write_text(place, json.dumps({**card, "card_sha256": card_hash(card)}, indent=1) + "\n")
    return place


def family_of(path: str | Path) -> str | None:
    """The family that a card names; None for what cannot be read."""
    try:
        card = json.loads(card_path_of(path).read_bytes())
    except (OSError, ValueError):
        return None
    return str(card.get("family")) if isinstance(card, dict) else None


def read_family_card(
    path: str | Path,
    family: str,
    version: int,
    readable: Callable[[dict[str, Any]], bool] = lambda card: False,
) -> dict[str, Any]:
    """The card, checked. ``readable``: cards of another feature version that are read as well. Raises RecordError."""
    place = card_path_of(path)
    try:
        card = json.loads(read_file(place))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{place} is not a policy's card: {error}; it was damaged or cut short") from None
    if not isinstance(card, dict) or card.get("family") != family:
        raise RecordError(f"{place} is not the card of a '{family}' policy")
    if card.get("format") != FORMAT:
        raise RecordError(f"{place} has format {card.get('format')}; this version reads format {FORMAT}")
    stated = card.pop("card_sha256", None)
    if stated != card_hash(card):
        raise RecordError(
            f"{place} was changed after it was written (SHA-256 differs); train the policy again"
        )
    if card["features"]["version"] != version and not readable(card):
        raise RecordError(
            f"{place} was trained on feature version {card['features']['version']}, this version computes {version}; "
            "train it again with: eunomia train"
        )
    return {**card, "card_sha256": stated}


def read_tensors(
    path: str | Path, card: Mapping[str, Any], bounds: Collection[str] = ()
) -> dict[str, Floats]:
    """The tensors of a checked card; those named in ``bounds`` may be infinite. Raises RecordError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    place, content = tensor_path_of(path), read_content(path, card)
    try:
        tensors = {name: np.array(value, np.float64) for name, value in load(content).items()}
    except (SafetensorError, ValueError) as error:
        raise RecordError(f"{place} cannot be read: {error}") from None
    for name, value in tensors.items():
        if np.isnan(value).any() or (name not in bounds and np.isinf(value).any()):
            raise RecordError(
                f"{place}: weights '{name}' hold a value that is not a finite number; train it again"
            )
    return tensors


def read_content(path: str | Path, card: Mapping[str, Any]) -> bytes:
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


def card_hash(card: Mapping[str, Any]) -> str:
    """SHA-256 over a card's content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def read_file(path: Path) -> bytes:
    """A card or its tensors; raises RecordError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"cannot read {path}: {error.strerror}; a policy is a .json card beside a .safetensors file"
        ) from None
