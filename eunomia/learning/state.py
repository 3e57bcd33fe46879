"""The state of a training on disk: replaced in one step, so that a kill loses at most one iteration.

``training.safetensors`` holds the arrays of the agent and of the best policy so far; its metadata holds the curve and
the identity of the training. What is large and never changes (an episode in a replay memory) stands beside it as a
*piece*: one file, written before the state that names it and removed after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.core.atomic import write_bytes
from eunomia.core.errors import RecordError
from eunomia.core.version import __version__

Arrays = dict[str, npt.NDArray[Any]]
Pieces = Mapping[str, Arrays]
Entry = dict[str, float]
FILE, PIECES = "training.safetensors", "pieces"
VERSION = f"{__version__}, state 2"  # of the program, and of what its agents keep


@dataclass(frozen=True, eq=False)
class State:
    """Everything that the next iteration depends on."""

    agent: Arrays
    best: Arrays  # tensors of the best policy so far, by validation
    values: Floats  # of the best policy, per validation episode
    start_values: Floats  # of the policy that the training began with
    iteration: int = 0
    cpu_s: float = 0.0
    curve: tuple[Entry, ...] = ()  # one entry per iteration
    pieces: Pieces = field(default_factory=dict)


def write_state(state: State, folder: Path, identity: str) -> None:
    """Replace the state on disk. Raises OutputError."""
    for name, piece in state.pieces.items():
        if not _piece(folder, name).exists():
            _write(_piece(folder, name), piece, {}, identity)
    arrays = {f"agent.{name}": value for name, value in state.agent.items()}
    arrays |= {f"best.{name}": value for name, value in state.best.items()}
    arrays |= {"values": state.values, "start_values": state.start_values}
    notes = {"iteration": state.iteration, "cpu_s": state.cpu_s, "curve": state.curve}
    _write(folder / FILE, arrays, {**notes, "pieces": list(state.pieces)}, identity)
    for path in (folder / PIECES).glob("*.safetensors"):
        if path.stem not in state.pieces:
            path.unlink()


def read_state(folder: Path, identity: str) -> State | None:
    """The state that was written last; None if the training has not begun.

    Raises RecordError for a damaged file, one that an earlier version wrote, and a training with other settings.
    """
    if not (folder / FILE).exists():
        return None
    arrays, notes = _read(folder / FILE, identity)

    def part(name: str) -> Arrays:
        return {key.removeprefix(name): value for key, value in arrays.items() if key.startswith(name)}

    pieces = {name: _read(_piece(folder, name), identity)[0] for name in notes["pieces"]}
    ends = arrays["values"], arrays["start_values"], notes["iteration"], notes["cpu_s"]
    return State(part("agent."), part("best."), *ends, tuple(notes["curve"]), pieces)


def _piece(folder: Path, name: str) -> Path:
    return folder / PIECES / f"{name}.safetensors"


def _write(path: Path, arrays: Arrays, notes: Mapping[str, Any], identity: str) -> None:
    from safetensors.numpy import save

    plain = {name: np.array(value, order="C") for name, value in arrays.items()}
    write_bytes(path, save(plain, {"settings": identity, "version": VERSION, "notes": json.dumps(notes)}))


def _read(path: Path, identity: str) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RecordError(
            f"{path} cannot be read ({error}); remove {path.parent} to train from the beginning"
        ) from None
    if metadata.get("version") != VERSION:
        raise RecordError(
            f"{path} was begun by an earlier version of eunomia ({metadata.get('version', 'none is noted')}; this one "
            f"is {VERSION}), whose trainings cannot be continued; choose another folder with --out, or remove it"
        )
    if metadata["settings"] != identity:
        raise RecordError(
            f"{path} belongs to a run with other settings; choose another folder with --out, or remove it"
        )
    return arrays, json.loads(metadata["notes"])
