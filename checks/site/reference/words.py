"""Docstrings and texts as Markdown."""

from __future__ import annotations

import inspect
import re


def cell(text: object) -> str:
    """A text inside one cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def code(text: object) -> str:
    """A text as code inside a cell of a table."""
    return "`" + " ".join(str(text).split()).replace("|", "\\|").replace("`", "'") + "`"


def prose(documented: object) -> str:
    """A docstring as Markdown: code in single quotes, indented formulas as blocks."""
    return marked(inspect.getdoc(documented) or "")


def marked(text: str) -> str:
    """The words of a docstring as Markdown."""
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", text).replace("``", "`").replace("::\n", ":\n")
    return re.sub(r"<(?=\w)", "&lt;", text)


def first_sentence(documented: object) -> str:
    """What a docstring begins with."""
    return marked((inspect.getdoc(documented) or "").partition("\n\n")[0])
