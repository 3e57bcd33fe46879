"""Every public name of ``import eunomia``: what it is called with, and what its docstring says."""

from __future__ import annotations

import inspect
import re

from checks.site.reference.words import prose

HEAD = """# Every name in Python

Made from the docstrings. [Python by example](../docs/api.md) shows each at work.
"""


def public_names() -> str:
    """One section per name."""
    import eunomia

    return HEAD + "".join(_section(name, getattr(eunomia, name)) for name in eunomia.__all__)


def _section(name: str, found: object) -> str:
    methods = _methods(found) if inspect.isclass(found) else ""
    return f"\n## {name}\n\n```python\n{name}{signature(found)}\n```\n\n{prose(found)}\n{methods}"


def signature(found: object) -> str:
    """Arguments and result, types without the names of their modules; nothing where it cannot be had."""
    try:
        text = str(inspect.signature(found))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text).replace("'", "")
    text = re.sub(r"<[^<>]*>", "...", text)
    return text if len(text) < 100 else text.replace(", ", ",\n    ").replace("(", "(\n    ", 1)


def _methods(kind: type) -> str:
    rows = []
    for name, found in vars(kind).items():
        function = found.fget if isinstance(found, property) else found
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        words = prose(function).partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{name}{'' if isinstance(found, property) else '()'}` | {words} |\n")
    return f"\n| of it | what it gives |\n|---|---|\n{''.join(rows)}" if rows else ""
