"""Which run of a folder is explained, and what is said when it is not the one that comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from eunomia.cli.inspect import find_run
from eunomia.core.errors import RecordError
from eunomia.core.records import read_comparison, write_comparison, write_run
from tests.report.synthetic import run


def test_a_missing_first_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toy = run(requests=10)
    for seed in (0, 1):
        write_run(tmp_path / "edf" / str(seed), toy.tables, {**toy.manifest, "seed": seed})
    write_comparison(tmp_path, {"name": "x", "policies": ["edf"], "seeds": [0, 1]})
    assert find_run(tmp_path, None, None).name == "0"
    assert capsys.readouterr().err == ""
    (tmp_path / "edf" / "0" / "manifest.json").unlink()
    assert find_run(tmp_path, None, None).name == "1"
    assert "no complete run edf/0 here; this is edf/1" in capsys.readouterr().err
    assert find_run(tmp_path, "edf", 1).name == "1"
    assert capsys.readouterr().err == ""


def test_a_sweep_has_nothing_to_explain_or_draw(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"name": "x", "kind": "sweep", "policies": ["edf"], "seeds": [0]})
    with pytest.raises(RecordError, match="is a sweep, which keeps metrics and no runs; run the setting"):
        find_run(tmp_path, None, None)
    with pytest.raises(
        RecordError, match="is a sweep, which keeps metrics and no runs; look at its sweep.csv"
    ):
        read_comparison(tmp_path)
