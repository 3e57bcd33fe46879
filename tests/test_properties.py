"""Properties are tried on the same examples whatever ran before."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.skipif(not settings().derandomize, reason="this profile draws other examples each time")
def test_what_is_loaded_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis draws constants of sources too: a failure once came and went with the tests before it."""
    drawn: list[int] = []

    @settings(max_examples=200)
    @given(st.integers())
    def collect(number: int) -> None:
        drawn.append(number)

    collect()
    first, file = list(drawn), tmp_path / "loaded_since.py"
    file.write_text(f"NUMBERS = {list(range(10**9, 10**9 + 500))}\n")
    spec = importlib.util.spec_from_file_location("loaded_since", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "loaded_since", module)
    spec.loader.exec_module(module)
    drawn.clear()
    collect()
    assert drawn == first and len(set(first)) > 50
