"""Logs of ``sacct`` in the forms that strangers have: other columns, marks, widths, states; and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eunomia.cluster.traces import JobTrace, read_jobs
from eunomia.core.errors import TraceError

HEAD = "JobID|User|Account|State|Submit|Start|Elapsed|AllocTRES\n"
TRES = "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1"
AT = "2024-03-01T10:00:00|2024-03-01T10:00:30"
ROW = f"7|ann|bio|COMPLETED|{AT}|01:00:00|{TRES}\n"
NAMED = "JobID|JobName|State|Submit|Start|Elapsed|AllocTRES\n"
FIXED = """\
       JobID      User      State              Submit               Start    Elapsed            AllocTRES
------------ --------- ---------- ------------------- ------------------- ---------- --------------------
7                  ann  COMPLETED 2024-03-01T10:00:00 2024-03-01T10:00:30   01:00:00     cpu=8,gres/gpu=2
7.batch                 COMPLETED 2024-03-01T10:00:30 2024-03-01T10:00:30   01:00:00     cpu=8,gres/gpu=2
8                  bob OUT_OF_ME+ 2024-03-01T10:00:00 2024-03-01T10:00:30   02:00:00     cpu=8,gres/gpu=4
"""


def _read(tmp_path: Path, text: str) -> JobTrace:
    log = tmp_path / "log.txt"
    log.write_text(text)
    return read_jobs(log)


def _said(trace: JobTrace, words: str) -> bool:
    return any(words in note for note in trace.notes)


def test_the_raw_number_of_a_job_will_do(tmp_path: Path) -> None:
    head = HEAD.replace("JobID", "JobIDRaw").replace("Elapsed", "ElapsedRaw")
    assert _read(tmp_path, head + ROW.replace("01:00:00", "60")).duration_s.tolist() == [60.0]


@pytest.mark.parametrize("mark", ["|", ",", ";", "\t", "~", "^|^", "\x1f"])
@pytest.mark.parametrize("last", [False, True], ids=["parsable2", "parsable"])
def test_any_mark_between_fields(tmp_path: Path, mark: str, last: bool) -> None:
    """A comma that is the mark takes lists of resources apart: they are put together again."""
    text = (HEAD + ROW).replace("|", mark)
    trace = _read(tmp_path, text.replace("\n", f"{mark}\n") if last else text)
    assert trace.gpus.tolist() == [2] and trace.more["ran_on"].tolist() == ["a100"]
    assert trace.tenants == ("bio/ann",)


@pytest.mark.parametrize("mark", [",", ";", "|", "\t"])
def test_every_cell_in_quotes(tmp_path: Path, mark: str) -> None:
    """As R and spreadsheets write it; a quoted cell may hold the mark."""
    quoted = "".join(
        '"' + '","'.join(line.split("|")).replace('","', f'"{mark}"') + '"\n'
        for line in (HEAD + ROW).splitlines()
    )
    trace = _read(tmp_path, quoted)
    assert (trace.ids, trace.gpus.tolist(), trace.tenants) == (("7",), [2], ("bio/ann",))
    some = quoted.replace('"JobID"', "JobID").replace('"7"', "7")
    assert _read(tmp_path, some).gpus.tolist() == [2]


@pytest.mark.parametrize("before", ["#", "# ", "## "])
@pytest.mark.parametrize("mark", ["|", ",", "\t"])
def test_a_header_that_is_a_remark(tmp_path: Path, before: str, mark: str) -> None:
    assert _read(tmp_path, (before + HEAD + ROW).replace("|", mark)).ids == ("7",)


@pytest.mark.parametrize("mark", ["|", ",", "\t", '","'])
def test_the_number_may_stand_last(tmp_path: Path, mark: str) -> None:
    text = "".join(
        mark.join([*line.split("|")[1:], line.split("|")[0]]) + "\n" for line in (HEAD + ROW).splitlines()
    )
    if '"' in mark:
        text = "".join(f'"{line}"\n' for line in text.splitlines())
    assert _read(tmp_path, text).ids == ("7",)


def test_two_lists_of_resources_taken_apart_by_commas(tmp_path: Path) -> None:
    head = HEAD.replace("AllocTRES", "ReqTRES|AllocTRES").replace("|", ",")
    row = ROW.rstrip("\n").replace(TRES, "cpu=8,gres/gpu=3") + f",{TRES}\n"
    assert _read(tmp_path, head + row.replace("|", ",")).gpus.tolist() == [2]
    quoted = ROW.replace(TRES, '"cpu=8,gres/gpu=5"').replace("|", ",")
    assert _read(tmp_path, HEAD.replace("|", ",") + quoted).gpus.tolist() == [5]


def test_columns_of_a_fixed_width(tmp_path: Path) -> None:
    trace = _read(tmp_path, FIXED)
    assert trace.ids == ("7", "8") and trace.gpus.tolist() == [2, 4]
    assert trace.duration_s.tolist() == [3600.0, 7200.0] and trace.tenants == ("ann", "bob")


@pytest.mark.parametrize(
    ("state", "job", "parts"),
    [
        ("CANCELLED by 1000", "123_4", False),
        ("NODE_FAIL", "12+0", True),
        ("RESV_DEL_HOLD", "7", False),
        ("LAUNCH_FAILED", "7", False),
    ],
)
def test_states_and_numbers_of_jobs(tmp_path: Path, state: str, job: str, parts: bool) -> None:
    row = ROW.replace("COMPLETED", state).replace("7|", f"{job}|")
    steps = "".join(row.replace(f"{job}|", f"{job}.{step}|") for step in ("batch", "extern", "0"))
    waits = ROW.replace("7|", "123_[5-9%2]|").replace("2024-03-01T10:00:30", "Unknown").replace(TRES, "")
    never = ROW.replace("7|", "124|").replace("2024-03-01T10:00:30", "None").replace("01:00:00", "00:00:00")
    trace = _read(tmp_path, HEAD + row + steps + waits + never)
    assert trace.ids == (job,)
    assert _said(trace, "2 jobs that never ran left out")
    assert _said(trace, "parts of heterogeneous jobs") == parts


@pytest.mark.parametrize(
    ("tres", "gpus", "kind"),
    [
        ("cpu=1,gres/gpu=2", 2, ""),
        ("gres/gpu:a100=2,gres/gpu:a100=2,gres/gpu=2,gres/gpumem=80G,gres/gpuutil=9", 2, "a100"),
        ("gres/gpu:a100_1g.5gb=3", 3, "a100_1g.5gb"),
    ],
)
def test_lists_of_resources(tmp_path: Path, tres: str, gpus: int, kind: str) -> None:
    trace = _read(tmp_path, HEAD + ROW.replace(TRES, tres))
    assert (trace.gpus.tolist(), trace.more["ran_on"].tolist()) == ([gpus], [kind])


@pytest.mark.parametrize(
    ("gres", "gpus", "kind"), [("gpu:2", 2, ""), ("craynetwork:1,gpu:v100:4(S:0-1)", 4, "v100")]
)
def test_an_old_log_has_generic_resources_and_an_end(tmp_path: Path, gres: str, gpus: int, kind: str) -> None:
    text = f"JobID|State|Submit|Start|End|AllocGRES|Timelimit|\n7|COMPLETED|{AT}|2024-03-01T11:00:30|{gres}|INVALID|\n"
    trace = _read(tmp_path, text)
    assert (trace.gpus.tolist(), trace.more["ran_on"].tolist()) == ([gpus], [kind])
    assert trace.duration_s.tolist() == [3600.0] and np.isnan(trace.more["time_limit_s"]).all()


def test_run_times_that_are_none_and_clocks_that_went_back(tmp_path: Path) -> None:
    invalid = ROW.replace("7|", "8|").replace("01:00:00", "INVALID")
    early = ROW.replace("7|", "9|").replace("2024-03-01T10:00:30", "2024-03-01T09:59:00")
    trace = _read(tmp_path, HEAD + ROW + invalid + early)
    assert trace.ids == ("7", "9") and trace.more["wait_s"].tolist() == [30.0, 0.0]
    assert _said(trace, "1 jobs without a run time") and _said(trace, "1 jobs began before")


def test_what_stands_before_and_between_headers(tmp_path: Path) -> None:
    """The command, a remark, and two logs of which one follows the other."""
    text = "$ sacct -a -P -o JobID,User,...\n# of March\n" + HEAD + ROW + HEAD + ROW.replace("7|", "8|")
    assert _read(tmp_path, text).ids == ("7", "8")


def test_a_name_may_hold_the_mark_if_it_is_the_only_free_text(tmp_path: Path) -> None:
    row = f"7|a|b|c|COMPLETED|{AT}|01:00:00|gres/gpu=2\n"
    assert _read(tmp_path, NAMED + row).gpus.tolist() == [2]
    assert _read(tmp_path, NAMED + row.replace("a|b|c", '"a')).gpus.tolist() == [
        2
    ]  # a quote that is the name's
    with pytest.raises(TraceError, match="this line has 10 fields, the header has 8; where names hold"):
        _read(tmp_path, NAMED.replace("JobName", "JobName|Comment") + row.replace("|a", "|x|a"))


WRONG = (
    ("JobID|Submit|AllocTRES\n7|2024-03-01T00:00:00|gres/gpu=2\n", "Start, State, ElapsedRaw or Elapsed'"),
    ("JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n7|x|gpu|bio|8|COMPLETED|0:0\n", "Submit, St"),
    ("My " + HEAD + ROW, "column 'JobID': this column is missing; add it to sacct -o"),
    (ROW, "line 1: the first line names no column JobID; write the log with a header"),
    (FIXED.replace("    cpu=8,gres/gpu=2\n7.b", "billing=8,cpu=8,gre+\n7.b"), "is cut to a width; write the"),
    ("\n".join(line for line in FIXED.splitlines() if "---" not in line), "the columns are cut to a width"),
    ('{"jobs": [{"job_id": 7}], "meta": {"Slurm": {}}}\n', "sacct's JSON is not read; write columns: sacct"),
    (NAMED + "7|a\nb|COMPLETED|x|y|01:00:00|gres/gpu=2\n", "this line has 2 fields, the header has 7"),
    (HEAD + ROW.replace("COMPLETED", "CD"), "'CD' is no state of Slurm"),
    (HEAD + ROW.replace("2024-03-01T10:00:00", "01 Mar 10:00"), r"is no time; write .*SLURM_TIME_FORMAT"),
    (HEAD + ROW.replace(TRES, "1=8,1001=2"), r"ran on a GPU \(1 without GPU, 0 never ran, 0 on several"),
    (HEAD + ROW.replace(TRES, "(null)"), "no job of this log ran on a GPU"),
)


@pytest.mark.parametrize(("text", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message) as failed:
        _read(tmp_path, text)
    assert "\n" not in str(failed.value)
