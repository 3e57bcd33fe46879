"""A row of the conformance tables: calls made, those that went as they should, and what the others said."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

SHOWN = 3  # of what went wrong, on the page
HEAD = ("", "client", "calls", "as expected", "otherwise", "what was seen", "as promised")


def yes(answer: Any) -> bool:
    """Whether the answer is one at all."""
    return bool(answer)


@dataclass
class Tally:
    """Calls of one kind. ``wrong`` holds a sentence per call, and per fact, that was not as it should be."""

    what: str
    client: str
    made: int = 0
    astray: int = 0
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        """Something was called, and nothing was wrong."""
        return self.made > 0 and not self.wrong

    async def right(
        self, name: str, call: Callable[[], Any], fits: Callable[[Any], bool] = yes, count: int = 1
    ) -> Any:
        """Call; the answer (awaited if need be) must fit. ``count``: how many calls to the server that is."""
        self.made += count
        try:
            answer = await done(call())
            if not fits(answer):
                self._astray(f"{name}: {answer}")
        except Exception as error:
            self._astray(f"{name}: {type(error).__name__}: {error}")
            return None
        return answer

    async def refused(self, name: str, call: Callable[[], Any], words: str) -> None:
        """Call; it must raise, with one of these words (separated by ``|``) in its message."""
        self.made += 1
        try:
            answer = await done(call())
        except Exception as error:
            if not any(word in str(error) for word in words.split("|")):
                self._astray(f"{name}: refused otherwise: {type(error).__name__}: {error}")
            return
        self._astray(f"{name}: not refused: {answer}")

    def demand(self, fact: bool, text: str) -> None:
        """A fact beside the calls, that must hold."""
        if fact:
            self.notes.append(text)
        else:
            self.wrong.append(f"NOT: {text}")

    def _astray(self, text: str) -> None:
        self.astray += 1
        self.wrong.append(text)

    def cells(self) -> list[str]:
        """The row."""
        seen = [f"**{printed(text)}**" for text in self.wrong[:SHOWN]] + self.notes
        if len(self.wrong) > SHOWN:
            seen.append(f"**and {len(self.wrong) - SHOWN} more**")
        return [self.what, self.client, str(self.made), str(self.made - self.astray), str(self.astray),
                "; ".join(seen) or "-", "yes" if self.fine else "no"]  # fmt: skip


async def done(value: Any) -> Any:
    """The value, or what it comes to."""
    return await value if inspect.isawaitable(value) else value


def printed(text: str) -> str:
    """Somebody else's words in a cell of a Markdown table."""
    return shorten(text, 160, placeholder=" ...").replace("|", "/").replace("*", "")
