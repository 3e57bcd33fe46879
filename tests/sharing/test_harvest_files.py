"""Series as others write them: each format by hand, uneven samples on one grid, and what is refused in one sentence."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.core.errors import ConfigError
from eunomia.sharing.harvest.files import mapping_of, read

N = 50


def test_uneven_samples_by_hand(tmp_path: Path) -> None:
    """The greatest of a step, the last one before where there is none; both series cut to 10 .. 509 s."""
    file = tmp_path / "machine_usage.csv"
    a = [(t, 40) for t in range(0, 510, 10)] + [(15, 90), (12, 70)]
    b = [(t, 20 if t < 300 else 30) for t in range(10, 600, 10) if t not in (200, 210)]
    rows = [f"m_1,{t},5,{v},,,1,1,0" for t, v in a] + [f"m_2,{t},5,{v},,,1,1,0" for t, v in b]
    rows += ["m_1,20,5,-1,,,1,1,0", "m_2,30,5,101,,,1,1,0", "m_2,31,5,,,,1,1,0", "m_3,0,5,9,,,1,1,0"]
    file.write_text("\n".join(rows) + "\n")
    found = read(file, step_s=10.0)
    assert found.step_s == 10.0 and list(found.series) == ["m_1", "m_2"]
    assert found.series["m_1"].tolist() == [90.0, *[40.0] * 49]
    assert found.series["m_2"].tolist() == [*[20.0] * 29, *[30.0] * 21]
    assert found.notes == [
        "1 of 3 series are left out: fewer than 20 samples, or less than half of the file's time",
        "3 samples are blank and left out",
    ]
    assert set(read(file, {"value": "cpu_util_percent"}, 10.0).series["m_1"]) == {5.0}


def _containers() -> str:
    return "".join(f"c_{n},m_9,{60 * t},7,{n + t % 3},1,,0,1,1,2\n" for t in range(N) for n in (1, 2))


def _azure() -> str:
    return "".join(f"{300 * t},vm=/a+{n}==,1,9,{n + t % 3}\n" for t in range(N) for n in (1, 2))


def _prometheus() -> str:
    result = [
        {"metric": {"__name__": "x", "gpu": f"{n}"}, "values": [[15.5 * t, str(n + t % 3)] for t in range(N)]}
        for n in (1, 2)
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def _dcgm() -> str:
    head = "timestamp,Hostname,gpu,modelName,DCGM_FI_DEV_GPU_UTIL,DCGM_FI_DEV_FB_USED\n"
    return head + "".join(
        f"2026-01-01T00:{t:02d}:00Z,h,{n},A100,99,{n + t % 3}\n" for t in range(N) for n in (1, 2)
    )


def _smi() -> str:
    head = "timestamp, index, name, utilization.gpu [%], memory.used [MiB]\n"
    return head + "".join(
        f"2026/01/01 00:{t:02d}:00.123, {n}, A100, 99 %, {n + t % 3} MiB\n" for t in range(N) for n in (1, 2)
    )


def _any() -> str:
    return (
        "when;".replace(";", ",")
        + "pod,ns,rss\n"
        + "".join(f"{10 * t},p{n},x,{n + t % 3}\n" for t in range(N) for n in (1, 2))
    )


@pytest.mark.parametrize(
    ("text", "names", "columns", "step_s"),
    [
        (_containers(), ["c_1", "c_2"], [], 60.0),
        (_azure(), ["vm=/a+1==", "vm=/a+2=="], [], 300.0),
        (_prometheus(), ["gpu=1", "gpu=2"], [], 15.5),
        (_dcgm(), ["h/1", "h/2"], [], 60.0),
        (_smi(), ["1", "2"], [], 60.0),
        (_any(), ["x/p1", "x/p2"], ["series=ns+pod", "time=when", "value=rss"], 10.0),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_formats_of_others(
    tmp_path: Path, text: str, names: list[str], columns: list[str], step_s: float, zipped: bool
) -> None:
    file = tmp_path / ("s.csv.gz" if zipped else "s.csv")
    file.write_bytes(gzip.compress(text.encode()) if zipped else text.encode("utf-8-sig"))
    found = read(file, mapping_of(columns))
    assert list(found.series) == names and found.step_s == pytest.approx(step_s)
    assert not found.notes
    for n, values in enumerate(found.series.values(), 1):
        assert values.tolist() == [n + t % 3 for t in range(N)]


def test_a_table_with_a_column_per_series_is_read_as_before(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text("time,a,b\n" + "".join(f"{t},{t % 5},1\n" for t in range(N)))
    found = read(file)
    assert list(found.series) == ["a", "b"] and math.isnan(found.step_s)


@pytest.mark.parametrize(
    ("text", "columns", "says"),
    [
        ('{"status":"error"}', [], "no answer of a Prometheus range query"),
        ('{"data":{"result":[]}}', [], "0 series, none with 20 samples"),
        ("a,b,c\n1,2,3\n", ["series=a", "value=c"], "no column for time; name one by --column time=NAME; there are: a"),
        ("a,b,c\n1,2,3\n", ["series=a", "time=b", "value=x"], "no column 'x' for value"),
        ("pod,ts,v\np,yesterday,3\n", ["series=pod", "time=ts", "value=v"], "2: time 'yesterday' and value '3'"),
        ("pod,ts,v\np,1,-3\n", ["series=pod", "time=ts", "value=v"], "sample of series 'p' is -3; none is negative"),
        ("pod,ts,v\np,1\n", ["series=pod", "time=ts", "value=v"], ":2: 2 cells; the first line has 3"),
        ("".join(f"p,{t},{t}\n" for t in range(9)), ["pod"], "write WANTED=NAME"),
        ("x", ["pods=a"], "unknown column of series 'pods'"),
        ("pod,ts,v\n" + "p,1,3\n" * 50, ["series=pod", "time=ts", "value=v"], "share 0 steps of 1 s; 40 are needed"),
        ("pod,ts,v\n" + "".join(f"{pod},{t},3\n" for pod, at in (("a", 0), ("b", 1000)) for t in range(at, at + 30)),
         ["series=pod", "time=ts", "value=v"], "none of 2 series covers half of the file's 1029 s; give a file of"),
        ("x" * 140_000 + ",ts,v\n", ["series=pod", "time=ts", "value=v"], "no CSV file: field larger than"),
        ("pod,ts,v\n" + "x" * 140_000 + ",1,3\n", ["series=pod", "time=ts", "value=v"], "no CSV file: field larger"),
    ],
)  # fmt: skip
def test_wrong_files_end_in_one_sentence(tmp_path: Path, text: str, columns: list[str], says: str) -> None:
    file = tmp_path / "s.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as told:
        read(file, mapping_of(columns))
    assert says in str(told.value) and "\n" not in str(told.value)


def test_a_wrong_step_and_a_broken_archive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--step is 0\.0; more than 0"):
        read(tmp_path / "none.csv", step_s=0.0)
    broken = tmp_path / "s.csv.gz"
    broken.write_bytes(gzip.compress(_azure().encode())[:-20])
    with pytest.raises(ConfigError, match="cannot be read"):
        read(broken)


def test_the_command_line_back_tests_what_alibaba_publishes(tmp_path: Path) -> None:
    rng, file = np.random.default_rng(0), tmp_path / "container_usage.csv"
    walk = 50.0 + np.cumsum(rng.normal(size=(300, 2)), axis=0).clip(-40.0, 40.0)
    file.write_text(
        "".join(f"c_{n},m_1,{10 * t},7,{walk[t, n]:.2f},1,,0,1,1,2\n" for t in range(300) for n in range(2))
    )
    found = CliRunner().invoke(app, ["sharing", "harvest", str(file), "--step", "10"])
    assert found.exit_code == 0, found.output
    assert "2 series, a sample each 10 s" in found.output and "persistence" in found.output
