"""Links of a document: where they lead, and how to change them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

FENCE = re.compile(r"^(?P<marks>```+|~~~+)[^\n]*\n.*?^(?P=marks)$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<head>!?\[[^\]]*\]\()(?P<target>[^)\s]+)(?P<tail>\))")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
ELSEWHERE = ("http://", "https://", "mailto:")


def changed(text: str, new: Callable[[str], str]) -> str:
    """The text with every relative link outside code as ``new`` gives it."""

    def link(found: re.Match[str]) -> str:
        target = found["target"]
        return found[0] if target.startswith(ELSEWHERE) else found["head"] + new(target) + found["tail"]

    return outside_code(text, lambda prose: LINK.sub(link, prose))


def targets(text: str) -> list[str]:
    """Every relative link outside code."""
    prose = FENCE.sub("", text)
    return [found["target"] for found in LINK.finditer(prose) if not found["target"].startswith(ELSEWHERE)]


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what stands between fences of code."""
    pieces, end = [], 0
    for fence in FENCE.finditer(text):
        pieces += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, change(text[end:])])


def anchors(path: Path) -> set[str]:
    """Names of a document's headings, as in an address after ``#``."""
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {slug(heading) for heading in HEADING.findall(prose)}


def slug(heading: str) -> str:
    """Lower case, blanks as hyphens, no other signs."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
