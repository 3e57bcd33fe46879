"""The Pythons of this machine on which Eunomia is to run, for ``make pythons``.

They are looked for on the path, and where pyenv and uv keep theirs. One counts if it starts and can make environments:
a shim of pyenv for a version that is not chosen does not start, and Debian's python3 lacks ``ensurepip`` at first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

MINORS = (11, 12, 13)
QUESTION = "import ensurepip, sys, venv; print(*sys.version_info[:2])"


def interpreters() -> dict[int, str]:
    """Minor version -> the first interpreter of it that answers."""
    found = {}
    for minor in MINORS:
        for python in candidates(minor):
            if answers(python, minor):
                found[minor] = python
                break
    return found


def candidates(minor: int) -> Iterator[str]:
    """The path's, pyenv's and uv's, the newest of each kind first."""
    name = f"python3.{minor}"
    home, data = Path.home(), os.environ.get("XDG_DATA_HOME")
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(data or home / ".local" / "share") / "uv" / "python"
    if on_path := shutil.which(name):
        yield on_path
    for folder, pattern in ((pyenv, f"3.{minor}.*"), (uv, f"cpython-3.{minor}.*")):
        for found in sorted(folder.glob(f"{pattern}/bin/{name}"), key=patch, reverse=True):
            yield str(found)


def patch(python: Path) -> tuple[int, ...]:
    """``.../cpython-3.12.10-linux/bin/python3.12`` -> (12, 10)."""
    numbers = python.parents[1].name.removeprefix("cpython-").partition("-")[0].split(".")[1:]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)


def answers(python: str, minor: int) -> bool:
    """Whether an interpreter starts, has this minor version, and can make environments."""
    try:
        done = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.split() == ["3", str(minor)]


def missing(found: dict[int, str]) -> list[str]:
    """A sentence for each version that this machine lacks."""
    return [
        f"Python 3.{minor} is not here: not tried; `pyenv install 3.{minor}` or `uv python install 3.{minor}`"
        for minor in MINORS
        if minor not in found
    ]
