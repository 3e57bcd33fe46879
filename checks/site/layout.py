"""Lay the pages out in a folder: documents where they stand, sources that they link to as pages, the reference.

Paths stay those of the repository, so that links between documents hold as they are. A link to a file of the
repository that is no page leads to a page ``source/PATH.md`` with its text; pictures are copied.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from checks.site import navigation
from checks.site.links import changed, outside_code
from checks.site.reference import PAGES

ROOT = navigation.ROOT
PICTURES = (".png", ".svg", ".jpg")
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".md": "markdown", ".cff": "yaml"}
SOURCE = "---\nsearch:\n  exclude: true\n---\n\n# {title}\n\n"
ITEM = re.compile(r"[*+-] |\d+\. ")


def lay_out(folder: Path) -> list[Path]:
    """Write every page of the site below ``folder``, which is emptied first; returns them."""
    shutil.rmtree(folder, ignore_errors=True)
    known = {path.resolve() for path in navigation.documents()}
    waiting: list[Path] = sorted(known)
    written: dict[Path, Path] = {}
    while waiting:
        source = waiting.pop()
        target = folder / place(source, known)
        if source in written:
            continue
        written[source] = target
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix in PICTURES:
            shutil.copy(source, target)
        elif source in known:
            target.write_text(page(source, known), encoding="utf-8")
            waiting += linked(source)
        else:
            target.write_text(listing(source), encoding="utf-8")
    for name, text in PAGES.items():
        target = folder / "reference" / f"{name}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text(), encoding="utf-8")
        written[target] = target
    for name in ("site.css", "site.js", "iframe-worker.js"):
        shutil.copy(Path(__file__).with_name(name), folder / name)
    return list(written.values())


def place(source: Path, known: set[Path]) -> Path:
    """Where a file of the repository stands in the site."""
    path = source.relative_to(ROOT)
    return path if source in known or source.suffix in PICTURES else Path("source") / f"{path}.md"


def page(source: Path, known: set[Path]) -> str:
    """A document with its links as the site has them, and its lists as Python's Markdown wants them."""
    here = source.relative_to(ROOT).parent

    def link(target: str) -> str:
        path, mark, anchor = target.partition("#")
        if not path:
            return target
        there = (source.parent / path).resolve()
        return os.path.relpath(place(there, known), here) + mark + anchor

    return changed(outside_code(source.read_text(encoding="utf-8"), spaced), link)


def linked(source: Path) -> Iterator[Path]:
    """Files of the repository that a document links to."""
    found: list[Path] = []

    def note(target: str) -> str:
        path = target.partition("#")[0]
        there = (source.parent / path).resolve()
        if path and there.exists():
            found.append(there)
        return target

    changed(source.read_text(encoding="utf-8"), note)
    yield from found


def spaced(text: str) -> str:
    """A blank line before each list that follows a paragraph at once."""
    lines: list[str] = []
    listed = False
    for line in text.split("\n"):
        item = bool(ITEM.match(line))
        before = lines[-1] if lines else ""
        if item and not listed and before.strip() and not before.startswith(("#", "|", "<!--")):
            lines.append("")
        listed = item or (listed and bool(line.strip()))
        lines.append(line)
    return "\n".join(lines)


def listing(source: Path) -> str:
    """A page with the text of a file, or of every file of a folder."""
    title = source.relative_to(ROOT).as_posix()
    files = sorted(path for path in source.iterdir() if path.is_file()) if source.is_dir() else [source]
    return SOURCE.format(title=title) + "".join(fenced(path, len(files) > 1) for path in files)


def fenced(path: Path, named: bool) -> str:
    """A file as a block of code; a notebook as its cells."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
        return "\n\n".join(
            f"~~~~python\n{text}\n~~~~" if code else text.replace("# ", "## ", 1) for text, code in texts
        )
    heading = f"## {path.name}\n\n" if named else ""
    return f"{heading}~~~~{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}~~~~\n\n"
