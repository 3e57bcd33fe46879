"""The files of a folder of networks: ``NAME.onnx``, ``NAME/model.onnx`` or ``NAME/N/model.onnx``.

Where ``NAME/config.pbtxt`` gives Triton another ``default_model_filename``, that stands for ``model.onnx`` in
``NAME/N``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from eunomia.serving.models.beside import file_beside

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PLACE = re.compile(rf"{NAME.pattern}(\.onnx|/model\.onnx|/\d+/model\.onnx)")  # of a network in the folder
RULE = (
    "rename it to NAME.onnx, NAME/model.onnx or NAME/N/model.onnx; NAME has at most 100 of a-z, A-Z, 0-9, '.', '_' and "
    "'-', of which the first is a letter or digit"
)
FOREIGN = "there is no model.onnx in a numbered folder beside it"  # Triton's, for what others run
CLOSED = "the folder may not be read"
VERSION = "1"  # of a network without numbered folders
RENAMED = re.compile(
    rb"""^(?:[^#"'\n]|"[^"\n]*"|'[^'\n]*')*?\bdefault_model_filename\s*:\s*["']([^"'/\\\n]+\.onnx)["']""",
    re.MULTILINE,
)
MOST_BYTES = 64 * 1024  # of a configuration, where that is looked for


def files_of(folder: Path, renamed: Iterable[Path]) -> dict[tuple[str, str], Path]:
    """Networks of a folder by name and version; of several layouts of one name the first named above."""
    found: dict[str, dict[str, Path]] = {}
    for path in folder.glob("*/*/model.onnx"):
        if path.parent.name.isdecimal():
            found.setdefault(path.parent.parent.name, {})[str(int(path.parent.name))] = path
    for path in renamed:
        found.setdefault(path.parent.parent.name, {})[str(int(path.parent.name))] = path
    found.update((path.parent.name, {VERSION: path}) for path in folder.glob("*/model.onnx"))
    found.update((path.stem, {VERSION: path}) for path in folder.glob("*.onnx"))
    return {(name, version): _file(path) for name, paths in found.items() for version, path in paths.items()}


def _file(path: Path) -> Path:
    """A network of several files may lie in a folder of its name (Triton)."""
    return path / "model.onnx" if path.is_dir() else path


def _renamed(folder: Path) -> set[Path]:
    """Files in numbered folders that their network's configuration calls by another name than ``model.onnx``."""
    found = set[Path]()
    for config in filter(Path.is_file, folder.glob("*/config.pbtxt")):  # nobody writes to a pipe
        with suppress(OSError), config.open("rb") as file:
            if said := RENAMED.search(file.read(MOST_BYTES)):
                name = os.fsdecode(said[1])
                places = (place for place in config.parent.iterdir() if place.name.isdecimal())
                found |= {place / name for place in places if (place / name).exists()}
    return found


def misnamed(folder: Path, renamed: Container[Path]) -> set[Path]:
    """ONNX files where networks are, with names that no network has.

    What begins with two dots is Kubernetes' own: links lead there (``..data``), and nobody can rename it.
    """
    there = [path for path in folder.glob("*") if path.suffix.lower() == ".onnx" and path.is_file()]
    there += [path for path in folder.glob("*/*") if path.name.lower() == "model.onnx"]
    there += folder.glob("*/*/model.onnx")
    there += [path for path in folder.glob("*/[0-9]*/*.onnx") if path.parent.name.isdecimal()]
    places = {path: path.relative_to(folder).as_posix() for path in there}
    return {
        p
        for p, place in places.items()
        if p not in renamed and not PLACE.fullmatch(place) and "/.." not in f"/{place}"
    }


class Found(NamedTuple):
    """Networks by name and version, each with the file beside it; and what is not served."""

    networks: dict[tuple[str, str], tuple[Path, Path]]
    misnamed: dict[Path, str]  # with the reason


def look_through(folder: Path) -> Found:
    """All that there is to know of it."""
    if not folder.is_dir():
        return Found({}, {folder: f"'{folder}' is no folder: nothing of it is served until it is one"})
    renamed = _renamed(folder)
    files = {place: (path, file_beside(folder, path)) for place, path in files_of(folder, renamed).items()}
    names = {name for name, _ in files}
    foreign = [path for path in folder.glob("*/config.pbtxt") if path.parent.name not in names]
    others = misnamed(folder, renamed)
    said = {folder / path.relative_to(folder).parts[0] for path in others}
    closed = [path for path in folder.glob("*") if NAME.fullmatch(path.name) and _closed(path)]
    why = (
        dict.fromkeys(closed, CLOSED)
        | dict.fromkeys(others, RULE)
        | {path: FOREIGN for path in foreign if path.parent not in said}
    )
    return Found(
        files,
        {path: f"{str(path.relative_to(folder))!r} is not served: {text}" for path, text in why.items()},
    )


def _closed(path: Path) -> bool:
    return not os.access(path, os.R_OK | os.X_OK) and path.is_dir()
