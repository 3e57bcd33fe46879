"""A training run on disk: one small state file, replaced in one step, and one file per episode in replay.

Episodes are written before the state that names them, and removed after it, so that a kill at any moment leaves a
state whose episodes are all there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.core.atomic import write_bytes
from eunomia.core.errors import RecordError
from eunomia.learning.agents.ddpg.episode import Floats, Transitions

FILE, FOLDER = "relmas.safetensors", "replay"
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, eq=False)
class RunState:
    """Everything that the next iteration depends on."""

    iteration: int
    learner: Arrays
    episodes: tuple[tuple[int, Transitions], ...]  # in replay, oldest first, with their numbers
    best: dict[str, Floats]
    best_value: float
    clone_values: Floats
    cpu_s: float
    curve: tuple[dict[str, float], ...]


def write_state(state: RunState, folder: Path, settings_hash: str) -> None:
    """Replace the state on disk. Raises OutputError."""
    from safetensors.numpy import save

    place = folder / FOLDER
    numbers = [number for number, _ in state.episodes]
    for number, episode in state.episodes:
        path = place / f"{number}.safetensors"
        if not path.exists():
            kept: Arrays = {
                "rows": episode.rows,
                "start": episode.start,
                "rewards": episode.rewards,
                "gaps": episode.gaps,
            }
            write_bytes(path, save(kept, {"settings": settings_hash}))
    arrays: Arrays = {f"learner.{name}": np.array(value, order="C") for name, value in state.learner.items()}
    arrays |= {f"best.{name}": np.ascontiguousarray(value) for name, value in state.best.items()}
    arrays["clone_values"] = state.clone_values
    notes = {"iteration": state.iteration, "episodes": numbers, "best_value": state.best_value, "cpu_s": state.cpu_s,
             "curve": state.curve}  # fmt: skip
    write_bytes(folder / FILE, save(arrays, {"settings": settings_hash, "notes": json.dumps(notes)}))
    for path in place.glob("*.safetensors"):
        if int(path.stem) not in numbers:
            path.unlink()


def read_state(folder: Path, settings_hash: str) -> RunState | None:
    """The state that was written last; None if the run has not begun. Raises RecordError."""
    path = folder / FILE
    if not path.exists():
        return None
    arrays, notes = _open(path, settings_hash)
    episodes = []
    for number in notes["episodes"]:
        kept, _ = _open(folder / FOLDER / f"{number}.safetensors", settings_hash)
        episodes.append((number, Transitions(kept["rows"], kept["start"], kept["rewards"], kept["gaps"])))

    def part(name: str) -> Arrays:
        return {key.removeprefix(name): value for key, value in arrays.items() if key.startswith(name)}

    return RunState(
        notes["iteration"], part("learner."), tuple(episodes), part("best."), notes["best_value"],
        arrays["clone_values"], notes["cpu_s"], tuple(notes["curve"]),
    )  # fmt: skip


def _open(path: Path, settings_hash: str) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RecordError(
            f"{path} cannot be read ({error}); remove its folder to train from the beginning"
        ) from None
    if metadata.get("settings") != settings_hash:
        raise RecordError(f"{path} belongs to a run with other settings; choose another folder, or remove it")
    return arrays, json.loads(metadata.get("notes", "{}"))
