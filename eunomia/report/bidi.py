"""Names that cannot garble the page: invisible controls made visible, right-to-left names kept apart."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable

# marks, embeddings, overrides and isolates of direction, and controls that no text needs
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text with every control of direction written out, as in ``[U+202E]``."""
    return _CONTROLS.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)


def breakable(name: str) -> str:
    """A name as HTML that may be broken after its joints and nowhere else."""
    broken = re.sub(r"([+/_-])(?=.)", r"\1<wbr>", html.escape(visible(name)))
    return f"<bdi>{broken}</bdi>"


class Names:
    """Known names, so that those written from right to left do not turn the sentences around them."""

    def __init__(self, names: Iterable[str]) -> None:
        turned = sorted({html.escape(visible(name)) for name in names if _turns(name)}, key=len, reverse=True)
        self._turned = re.compile("|".join(map(re.escape, turned))) if turned else None

    def text(self, sentence: str) -> str:
        """A sentence as HTML."""
        escaped = html.escape(visible(sentence))
        if self._turned is None:
            return escaped
        return self._turned.sub(lambda match: f"<bdi>{match.group()}</bdi>", escaped)


def _turns(name: str) -> bool:
    return any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in name)
