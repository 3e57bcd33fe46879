"""Notebooks are whole, hold no output, and run (`make notebooks` runs them all; one runs here)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.notebooks import FOLDER, executed, run

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_is_one_for_each_kind_of_study() -> None:
    names = {path.stem for path in NOTEBOOKS}
    assert names >= {"own_policy", "own_network_and_trace", "training", "planning", "cluster_study"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_well_formed_and_holds_no_output(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebook["cells"]
    assert cells[0]["cell_type"] == "markdown" and "".join(cells[0]["source"]).startswith("# ")
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            compile("".join(cell["source"]), path.name, "exec")


def test_a_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = [cell for cell in executed(FOLDER / "own_network_and_trace.ipynb")["cells"] if "outputs" in cell]
    assert any("reader" in str(cell["outputs"]) for cell in cells)


def test_a_cell_shows_what_it_prints_and_its_last_value() -> None:
    names: dict[str, object] = {}
    assert run("x = 2\nprint('seen')\nx + 1", names, "here") == "seen\n3\n" and names["x"] == 2
    assert run("y = 1", names, "here") == ""
