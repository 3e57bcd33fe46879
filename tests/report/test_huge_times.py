"""Times beyond what a page or a trace can hold: no warning, no traceback, a sentence instead of a chart."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eunomia.core.records import RunRecords
from eunomia.report.gantt import gantt, why_missing
from eunomia.report.html import render_report
from eunomia.report.timeline import write_timeline
from tests.report.synthetic import run


def stretched(factor: float) -> RunRecords:
    """A run whose times are all ``factor`` times as long."""
    toy = run(requests=30)
    tables = {}
    for name, table in toy.tables.items():
        for place, part in enumerate(table.schema):
            if part.name.endswith("_s") and "bytes" not in part.name and pa.types.is_floating(part.type):
                values = table[part.name].to_numpy(zero_copy_only=False) * factor
                table = table.set_column(place, part, pa.array(values, part.type, from_pandas=True))
        tables[name] = table
    return replace(toy, tables=tables, manifest={**toy.manifest, "warmup_s": 0.0, "measured_until_s": None})


@pytest.mark.parametrize("factor", [1e10, 1e12, 1e200, 1e300])
def test_a_run_of_ages_has_a_report_and_a_timeline_but_no_chart(tmp_path: Path, factor: float) -> None:
    ages = stretched(factor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gantt({"edf": ages}, {}) is None
        assert "too long to draw" in why_missing({"edf": ages})
        assert "too long to draw" in render_report(ages)
        write_timeline(tmp_path / "t.json", ages)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert all(np.isfinite(event.get("ts", 0.0)) for event in events)


def test_an_infinite_deadline_in_a_drawn_run_is_none() -> None:
    toy = run(requests=30)
    data = render_report(toy)
    assert why_missing({"edf": toy}) == "" and "too long to draw" not in data.split("<script>")[0]
