"""Write the generated parts of the documents, or check that they are up to date.

    python -m checks.pages            # one line per part that differs from the code; exit status 1 if there is any
    python -m checks.pages --write    # `make docs`

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end of NAME -->``. ``PARTS`` gives its text by name.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

from eunomia.contract.contention import CONTENTION

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(
    r"(?P<head><!-- generated: (?P<name>[\w-]+) -->\n)(?P<text>.*?)(?P<foot><!-- end of (?P=name) -->)",
    re.DOTALL,
)
WIDTH = 116


def contention() -> str:
    """The models with the formulas from their plain forms."""
    return "".join(
        textwrap.fill(
            f"`{name}`: {' '.join((inspect.getdoc(model.plain) or '').split())}",
            WIDTH,
            initial_indent="* ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
        for name, model in CONTENTION.items()
    )


PARTS: Mapping[str, Callable[[], str]] = {"contention": contention}


def generated(text: str) -> str:
    """A document with its parts written anew."""
    return PART.sub(lambda part: part["head"] + PARTS[part["name"]]() + part["foot"], text)


def main(arguments: list[str]) -> int:
    """1 where a document differs and is not written."""
    stale = 0
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        wanted = generated(text)
        if wanted != text and "--write" in arguments:
            path.write_text(wanted, encoding="utf-8")
        elif wanted != text:
            stale = 1
            print(f"{path.relative_to(ROOT)}: a generated part differs from the code; run `make docs`")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
