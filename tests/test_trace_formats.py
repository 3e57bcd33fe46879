"""What every reader of traces must hold, a newcomer too: requests and jobs alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eunomia.cluster import traces as jobs
from eunomia.core.errors import TraceError
from eunomia.workload import traces as requests

FORMATS = [("requests", name) for name in requests.TRACES] + [("jobs", name) for name in jobs.JOB_TRACES]
each = pytest.mark.parametrize(("wing", "name"), FORMATS, ids=["-".join(pair) for pair in FORMATS])


def read(wing: str, name: str, path: Path, **options: int) -> requests.Trace | jobs.JobTrace:
    if wing == "requests":
        return requests.open(name, path, **options)
    return jobs.read_jobs(path, name, **options)


def example(wing: str, name: str, folder: Path) -> Path:
    """The format's own example as a file."""
    formats = requests.FORMATS if wing == "requests" else jobs.FORMATS
    text = formats.find(name).example
    assert text, f"'{name}' has no example; give TraceFormat(example=...) a small whole file"
    path = folder / f"trace.{name}"
    path.write_text(text, encoding="utf-8")
    return path


@each
def test_the_example_is_found_and_read(wing: str, name: str, tmp_path: Path) -> None:
    path = example(wing, name, tmp_path)
    trace = read(wing, "auto", path)
    count = len(trace)
    assert trace.format == name and trace.path == str(path) and count >= 2
    assert trace.arrival_s[0] >= 0.0 and (np.diff(trace.arrival_s) >= 0.0).all()
    assert (
        len(trace.tenant) == count and (trace.tenant >= 0).all() and trace.tenant.max() < len(trace.tenants)
    )
    if isinstance(trace, jobs.JobTrace):
        assert len(trace.ids) == len(set(trace.ids)) == count and (trace.gpus >= 1).all()
        assert not (np.isnan(trace.steps) & np.isnan(trace.duration_s)).any()
    else:
        assert len(trace.model) == count and trace.model.max() < len(trace.models)


@each
def test_a_bound_on_rows_holds(wing: str, name: str, tmp_path: Path) -> None:
    path = example(wing, name, tmp_path)
    assert len(read(wing, name, path, max_rows=2)) == 2
    with pytest.raises(TraceError, match="1"):
        read(wing, name, path, max_rows=1)


@each
def test_a_damaged_line_is_an_error_that_names_the_file(wing: str, name: str, tmp_path: Path) -> None:
    path = example(wing, name, tmp_path)
    path.write_text(path.read_text(encoding="utf-8") + "what is this\n", encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read(wing, name, path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
