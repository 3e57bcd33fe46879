"""The snippets of docs/workloads.md run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "workloads.md"


def test_every_snippet_runs():
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(snippets) == 2
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), {})
