"""Tables in, pages out: ``studies/pages/PAGE.md`` is the text, ``results/data/NAME.json`` the figures.

A line ``{{NAME.KEY}}`` of a text stands for a table of a benchmark. Under its title every page lists command, commit,
date and machine of what it shows. The same data give the same page, byte for byte.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
from collections.abc import Iterable
from datetime import date
from importlib import metadata
from pathlib import Path

from benchmarks.table import Json, Measured, Table, load
from eunomia.core.atomic import write_text
from eunomia.core.provenance import environment

ROOT = Path(__file__).resolve().parents[1]
TEXTS, RESULTS = ROOT / "studies" / "pages", ROOT / "results"
MARK = re.compile(r"^\{\{([\w-]+)\.([^{}\n]+)\}\}$", re.MULTILINE)
HEAD = ("command", "commit", "date", "machine")


def shared() -> Path:
    """Measured tables and traces: ``$EUNOMIA_SHARED/data``, or ``shared/data`` beside the checkout."""
    return Path(os.environ.get("EUNOMIA_SHARED") or ROOT.parent / "shared") / "data"


def stored(name: str) -> dict[str, Table]:
    """Tables of a benchmark as they were measured last, by key."""
    path = RESULTS / "data" / f"{name}.json"
    content: dict[str, Json] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {key: load(key, one) for key, one in content.items()}


def store(name: str, tables: Iterable[Table]) -> None:
    """Put tables into the data, those of other keys stay; a line for each row."""
    found = stored(name) | {one.key: one for one in tables}
    blocks = []
    for key, one in found.items():
        content = one.dump()
        rows = ",\n   ".join(json.dumps(row, ensure_ascii=False) for row in content.pop("rows"))  # type: ignore[attr-defined]
        parts = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in content.items()]
        parts.append(f'"rows": [\n   {rows}\n  ]' if rows else '"rows": []')
        blocks.append(f" {json.dumps(key)}: {{\n  " + ",\n  ".join(parts) + "\n }")
    write_text(RESULTS / "data" / f"{name}.json", "{\n" + ",\n".join(blocks) + "\n}\n")
    for one in found.values():
        for path, content in one.files.items():
            write_text(ROOT / path, content)


def pages_of(name: str) -> list[str]:
    """The pages that show tables of a benchmark."""
    return [path.stem for path in sorted(TEXTS.glob("*.md")) if f"{{{{{name}." in path.read_text("utf-8")]


def render(page: str) -> str:
    """A page from its text and the stored data."""
    text = (TEXTS / f"{page}.md").read_text(encoding="utf-8")
    data = {name: stored(name) for name in dict.fromkeys(match[1] for match in MARK.finditer(text))}
    used: dict[Measured, None] = {}

    def shown(match: re.Match[str]) -> str:
        one = data[match[1]].get(match[2])
        if one is None:
            return f"*Not measured yet: `python -m benchmarks {match[1]}`.*"
        if one.measured is not None:
            used[one.measured] = None
        return str(one)

    title, _, rest = MARK.sub(shown, text).partition("\n")
    return f"{title}\n\n{header(used)}\n{rest}"


def header(used: Iterable[Measured]) -> str:
    """Command, commit, date and machine, a line for each measurement."""
    lines = [HEAD, ("---",) * len(HEAD)]
    lines += [(f"`{m.command}`".replace("|", "\\|"), m.commit, m.date, m.machine) for m in used]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(page: str) -> Path:
    """Make a page of results anew."""
    write_text(RESULTS / f"{page}.md", render(page))
    return RESULTS / f"{page}.md"


def measured(words: Iterable[str]) -> Measured:
    """This very run. A commit with ``+``: files were changed."""
    facts = environment()
    commit = str(facts["commit"] or "unknown")
    return Measured(
        shlex.join(["python", "-m", "benchmarks", *words]), commit[:7] + "+" * commit.endswith("+"),
        date.today().isoformat(), machine(),
    )  # fmt: skip


def machine() -> str:
    """Processor, cores and versions."""
    facts = environment()["machine"]
    versions = [f"Python {platform.python_version()}", f"NumPy {metadata.version('numpy')}"]
    return ", ".join([str(facts["processor"]), f"{facts['cores']} cores", *versions])
