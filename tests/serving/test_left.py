"""What a killed server left in the cache goes at the next start, unless another server uses that cache."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from eunomia.serving.blocks.optimise import SCRATCH
from eunomia.serving.devices.cutting import CHOSEN
from eunomia.serving.devices.left import USED, use


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """With a cut by a trial, one by sizes that a client chose, and what was under way."""
    for folder in ("abc-0.001-34cd.blocks", "abc-0.001-12ab.blocks", f"{SCRATCH}1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.onnx").touch()
    for file in ("abc.onnx", "abc.34cd.times.json", "abc.12ab.times.json", f"{SCRATCH}2.onnx"):
        (tmp_path / file).touch()
    (tmp_path / "abc-0.001-12ab.blocks" / CHOSEN).touch()
    return tmp_path


def names(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()} - {USED}


def test_who_starts_alone_takes_away_what_others_left(cache: Path) -> None:
    """Each kill left a copy of all weights, by sizes that nobody may ever send again."""
    before = names(cache)
    leave = use(cache)
    mine = cache / f"{SCRATCH}3"
    mine.mkdir()
    use(cache)()
    assert mine.exists(), "somebody uses it"
    assert names(cache) - {mine.name} == {"abc.onnx", "abc-0.001-34cd.blocks", "abc.34cd.times.json"} < before
    leave()
    use(cache)()
    assert not mine.exists()


def test_without_locks_nobody_knows_who_is_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    before = names(cache)
    use(cache)()
    use(cache / "abc.onnx")()  # no folder: who needs it says so
    assert names(cache) == before
