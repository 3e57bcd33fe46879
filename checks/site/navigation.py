"""The navigation of ``mkdocs.yml``: which pages there are, in which order, under which titles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "mkdocs.yml"


def settings() -> dict[str, Any]:
    """The file as data; what it takes from Python (the function that names anchors) is left out."""
    import yaml

    class Reader(yaml.SafeLoader):
        """YAML without Python's objects."""

    Reader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
    found: dict[str, Any] = yaml.load(SETTINGS.read_text(encoding="utf-8"), Reader)
    return found


def pages() -> list[str]:
    """Paths of all pages below the folder that is laid out, in order."""
    return list(_paths(settings()["nav"]))


def missing() -> list[str]:
    """Documents and results that the navigation lacks."""
    found = [path for pattern in ("docs/**/*.md", "results/*.md") for path in ROOT.glob(pattern)]
    return sorted({path.relative_to(ROOT).as_posix() for path in found} - set(pages()))


def documents() -> list[Path]:
    """The pages that are documents of this repository; those of the reference are made."""
    return [ROOT / path for path in pages() if not path.startswith("reference/")]


def _paths(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        (target,) = entry.values()
        yield from [target] if isinstance(target, str) else _paths(target)
