"""The state of a training run on disk: replaced in one step, so that a kill loses at most one generation.

One safetensors file holds the search's arrays and the best weights so far, its metadata the curve and the settings'
hash. A run is resumed only with the settings that it was begun with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.atomic import write_bytes
from eunomia.core.errors import RecordError
from eunomia.learning.agents.evolution import Evolution

Floats = npt.NDArray[np.float64]
FILE = "training.safetensors"


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Everything that the next generation depends on."""

    evolution: Evolution
    best: Floats  # coordinates of the best mean so far, by validation
    best_value: float
    cpu_s: float = 0.0
    curve: tuple[dict[str, float], ...] = field(default_factory=tuple)  # one entry per generation


def write_state(state: TrainingState, folder: Path, settings_hash: str) -> None:
    """Replace the state on disk. Raises OutputError."""
    arrays = {f"search.{name}": value for name, value in state.evolution.arrays().items()}
    notes = {"best_value": state.best_value, "cpu_s": state.cpu_s, "curve": state.curve}
    write_arrays({**arrays, "best": state.best}, notes, folder, settings_hash)


def read_state(folder: Path, settings_hash: str) -> TrainingState | None:
    """The state that was written last; None if the run has not begun. Raises RecordError."""
    found = read_arrays(folder, settings_hash)
    if found is None:
        return None
    arrays, notes = found
    search = {
        name.removeprefix("search."): value for name, value in arrays.items() if name.startswith("search.")
    }
    return TrainingState(
        Evolution.from_arrays(search),
        arrays["best"],
        notes["best_value"],
        notes["cpu_s"],
        tuple(notes["curve"]),
    )


def write_arrays(
    arrays: Mapping[str, Floats], notes: Mapping[str, Any], folder: Path, settings_hash: str
) -> None:
    """Replace the state of any trainer: arrays, plain notes, and whose they are. Raises OutputError."""
    from safetensors.numpy import save

    metadata = {"settings": settings_hash, "notes": json.dumps(notes)}
    content = save({name: np.array(value, order="C") for name, value in arrays.items()}, metadata)
    write_bytes(folder / FILE, content)


def read_arrays(folder: Path, settings_hash: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """What ``write_arrays`` wrote; None if nothing was written. Raises RecordError."""
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, "numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            arrays: dict[str, Any] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RecordError(f"{path} cannot be read ({error}); remove it to train from the beginning") from None
    if metadata.get("settings", metadata.get("identity")) != settings_hash:  # the older name
        raise RecordError(
            f"{path} belongs to a run with other settings; choose another folder with --out, or remove it"
        )
    return arrays, json.loads(metadata["notes"])
