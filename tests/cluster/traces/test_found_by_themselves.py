"""Files as they are published: formats are found without a name, header lines or an ending."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from eunomia.cluster.traces import detect, read_jobs
from eunomia.core.errors import TraceError

SWF = "; Version: 2.2\n; Computer: a café\n1 0 10 60.5 4 -1 -1 4 100 -1 1 7 1 1 1 -1 -1 -1\n"
PAI = "j1,worker,3.0,Terminated,110.0,400.0,600.0,29.0,50.0,T4\nj2,w,1.0,Waiting,190.0,,1.0,1.0,200.0,\n"


@pytest.mark.parametrize(
    ("name", "content", "format", "gpus"),
    [
        ("log.swf.gz", gzip.compress(SWF.encode("latin-1")), "swf", [4]),  # as the archive has them
        ("log.txt.gz", gzip.compress(SWF.encode()), "swf", [4]),
        ("log.txt", SWF.encode(), "swf", [4]),
        ("jobs", SWF.splitlines()[2].encode(), "swf", [4]),
        ("pai_task_table.csv", PAI.encode(), "alibaba-pai", [2]),
        ("x.csv", b"submit;gpus;start;end\n10;2;20;80\n", "columns", [2]),
        ("x.tsv", b"gpus\tsubmit\tduration\n3\t10\t60\n", "columns", [3]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_published_file_is_found(
    tmp_path: Path, name: str, content: bytes, format: str, gpus: list[int]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert detect(path) == format
    assert read_jobs(path).gpus.tolist() == gpus


@pytest.mark.parametrize(
    "content",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        b"<!DOCTYPE html>\n<html>404</html>\n",
        b"j1,worker,inst,w,Terminated,110.0,400.0,m\n",  # PAI's table of instances
        b"sn,cpu_milli,memory_mib,gpu,model\nnode,32000,262144,0,\n",  # openb's list of nodes
        b"Submit,GPUs,Duration\n1,2,3\n",
    ],
)
def test_what_is_no_trace_gets_one_sentence_with_the_mapping(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"line 1: no known job trace .*--column submit=when") as caught:
        read_jobs(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_archive_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(SWF.encode() * 50)[:60])
    with pytest.raises(TraceError, match="the compressed file is damaged or ends too early; fetch it again"):
        read_jobs(path)
