"""Readers of cluster traces: what they give, and where exactly a wrong file is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import JOB_TRACES, detect, read_jobs
from eunomia.cluster.traces.canonical import write
from eunomia.cluster.traces.generate import generate
from eunomia.cluster.traces.jobs import extended, to_jobs
from eunomia.core.errors import ConfigError, PlatformError, TraceError, UnknownNameError
from tests.cluster.small import table
from tests.shared_data import shared

GAVEL = "ResNet-18\tpython3 main.py\tcifar10\t--num_steps\t1\t{steps}\t{gpus}\t{weight}\t{slo}\t{at}"
OLD = "ResNet-18\tpython3 main.py\t--num_steps\t1\t{steps}\t{at}\t{gpus}"
HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
PAI = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
HELIOS_ROW = "{},u,v,{},1,1,C,2020-06-09 18:40:00,x,y,{},0"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"
STAMP = "2017-10-07 01:00:00"
CANONICAL = "arrival_s,gpus,duration_s"
SWF = "{job} {at} 0 {run} {procs} -1 -1 {asked} -1 -1 1 {user} 1 1 1 -1 -1 -1"


def gavel(
    at: object = 0, steps: object = 100, gpus: object = 1, weight: object = 1, slo: object = "-1.0"
) -> str:
    return GAVEL.format(at=at, steps=steps, gpus=gpus, weight=weight, slo=slo)


def swf(
    job: int, at: object = 0, run: object = 60, procs: object = 4, asked: object = 4, user: int = 7
) -> str:
    return SWF.format(job=job, at=at, run=run, procs=procs, asked=asked, user=user)


def file(tmp_path: Path, name: str, *lines: str) -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_gavels_current_form(tmp_path: Path) -> None:
    path = file(tmp_path, "t.trace", gavel(), gavel(at=30, gpus=4, weight=5, slo=1.2, steps=7))
    found = read_jobs(path)
    assert found.format == "gavel"
    assert found.arrival_s.tolist() == [0.0, 30.0]
    assert found.gpus.tolist() == [1, 4]
    assert found.steps.tolist() == [100.0, 7.0]
    assert found.weight.tolist() == [1.0, 5.0]
    assert np.isnan(found.slo[0]) and found.slo[1] == 1.2
    assert found.notes == ()


def test_gavels_older_form_is_read_and_said(tmp_path: Path) -> None:
    path = file(tmp_path, "t.trace", OLD.format(steps=5, at="2.000000", gpus=8))
    found = read_jobs(path)
    assert (found.gpus[0], found.steps[0], found.arrival_s[0]) == (8, 5.0, 2.0)
    assert "7 fields" in found.notes[0]


def test_trace_a() -> None:
    found = read_jobs(shared("gavel/trace_a_60jobs.trace"))
    assert len(found) == 60
    assert found.job_types[found.job_type[0]] == "Transformer (batch size 128)"
    assert set(found.gpus.tolist()) == {1, 2, 4}


def test_the_philly_extract_is_sorted_and_complete() -> None:
    found = read_jobs(shared("traces/philly_reduced.csv"))
    assert len(found) == 82_247
    assert len(found.tenants) == 15
    assert (np.diff(found.arrival_s) >= 0.0).all()
    assert found.arrival_s[0] == 0.0
    assert found.gpus.min() == 1


def test_the_philly_log(tmp_path: Path) -> None:
    attempt = {
        "start_time": "2017-10-07 01:00:00",
        "end_time": "2017-10-07 01:10:00",
        "detail": [{"gpus": ["g0", "g1"]}],
    }
    jobs = [
        {"submitted_time": "2017-10-07 00:59:00", "vc": "a", "attempts": [attempt]},
        {"submitted_time": "2017-10-07 00:50:00", "vc": "b", "attempts": []},
    ]
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(jobs))
    found = read_jobs(path)
    assert (found.gpus.tolist(), found.duration_s.tolist(), found.tenants) == ([2], [600.0], ("a",))


def test_helios(tmp_path: Path) -> None:
    row = "{id},u1,{vc},{gpus},1,1,COMPLETED,2020-06-09 18:4{m}:00,x,y,{run},0"
    path = file(
        tmp_path, "cluster_log.csv", HELIOS.strip(), row.format(id=1, vc="v1", gpus=0, m=0, run=5),
        row.format(id=2, vc="v2", gpus=4, m=2, run=50), row.format(id=3, vc="v1", gpus=1, m=1, run=60),
    )  # fmt: skip
    found = read_jobs(path)
    assert (found.format, found.ids) == ("helios", ("3", "2"))
    assert found.arrival_s.tolist() == [0.0, 60.0]
    assert "1 CPU jobs" in found.notes[1]


def test_acme(tmp_path: Path) -> None:
    """By hand: a CPU job, one that never ran, one that waited 13 s of its ``duration``; times with zones."""
    head = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time"
    row = "{id},{user},1,{gpus},96,x,FAILED,2023-03-01 00:0{at}:00+08:00,{start},2023-03-01 00:20:13+08:00,9,1,1"
    began = "2023-03-01 00:10:13+08:00"
    path = file(
        tmp_path, "trace_seren.csv", head, row.format(id="a", user="u", gpus=0, at=1, start=began),
        row.format(id="b", user="v", gpus=16, at=3, start=began), row.format(id="c", user="v", gpus=8, at=4, start=""),
        row.format(id="d", user="u", gpus=8, at=2, start=began),
    )  # fmt: skip
    found = read_jobs(path)
    assert (found.format, found.ids, found.tenants) == ("acme", ("d", "b"), ("v", "u"))
    assert (found.gpus.tolist(), found.duration_s.tolist()) == ([8, 16], [600.0, 600.0])
    assert found.more["wait_s"].tolist() == [493.0, 433.0] and "2 rows" in found.notes[1]


def test_gentd26(tmp_path: Path) -> None:
    """Requests in the file's own columns: one still runs, one has no run time, one failed after 3 s on its GPU."""
    head = (
        "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,"
        "num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora"
    )
    rest = "12.0,,1.0,30.0,M1,0"
    path = file(
        tmp_path, "lora_request_trace.csv", head,
        f"2024-11-15 10:00:30,IMG_2_IMG,FAILED,3.0,G2,{rest}", f"2024-11-15 10:00:00,TXT_2_IMG,SUCCEED,32.0,G1,{rest}",
        f"2024-11-15 10:00:40,TXT_2_IMG,PROCESSING,9.0,G1,{rest}", f"2024-11-15 10:00:50,TXT_2_IMG,SUCCEED,,G1,{rest}",
    )  # fmt: skip
    found = read_jobs(path)
    assert (found.format, found.arrival_s.tolist(), found.duration_s.tolist()) == (
        "gentd26",
        [0.0, 30.0],
        [32.0, 3.0],
    )
    assert [found.tenants[code] for code in found.tenant] == ["G1", "G2"] and found.gpus.tolist() == [1, 1]
    assert "2 requests that had not ended or have no run time left out" in found.notes


@pytest.mark.parametrize("with_header", [True, False])
def test_alibaba_pai(tmp_path: Path, with_header: bool) -> None:
    rows = [
        "j1,ps,1,Terminated,100,500,600,29,,",
        "j1,worker,3,Terminated,110,400,600,29,50,T4",
        "j2,w,1,Failed,90,95,1,1,200,V100",
    ]
    path = file(tmp_path, "pai_task_table.csv", *([PAI.strip()] if with_header else []), *rows)
    found = read_jobs(path, "auto" if with_header else "alibaba-pai")
    assert found.ids == ("j2", "j1")
    assert found.gpus.tolist() == [2, 2]
    assert found.duration_s.tolist() == [5.0, 290.0]
    assert "fraction of a GPU" in found.notes[1]


def test_swf(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        "log.swf",
        "; UnixStartTime: 0",
        swf(1),
        swf(2, at=5, procs=-1, asked=8),
        swf(3, at=6, run=-1),
    )
    found = read_jobs(path)
    assert (found.ids, found.gpus.tolist(), found.tenants) == (("1", "2"), [4, 8], ("7",))
    assert "1 jobs that never ran" in found.notes[1]


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.parquet"])
def test_any_trace_can_be_written_in_the_canonical_schema_and_read_back(tmp_path: Path, name: str) -> None:
    one = read_jobs(file(tmp_path, "t.trace", gavel(), gavel(at=30, gpus=4, weight=5, slo=1.2, steps=7)))
    two = read_jobs(write(one, tmp_path / name))
    assert two.format == "canonical"
    for column in ("arrival_s", "gpus", "steps", "duration_s", "weight", "slo"):
        assert getattr(one, column) == pytest.approx(getattr(two, column), nan_ok=True)
    assert (one.ids, one.job_types) == (two.ids, two.job_types)


def test_a_compressed_canonical_trace(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(gzip.compress(b"arrival_s,gpus,duration_s\n0,1,60\n"))
    assert read_jobs(path).duration_s.tolist() == [60.0]


WRONG = {
    "fields": (["a\tb\tc"], "gavel", "this line has 3 tab-separated fields"),
    "mixed forms": (
        [gavel(), OLD.format(steps=5, at=2, gpus=8)],
        "auto",
        "line 2: this line has 7 fields, the lines before",
    ),
    "unsorted": ([gavel(at=9), gavel(at=3)], "auto", "line 2, column 'arrival': 3 is earlier than 9"),
    "nan": ([gavel(at="nan")], "auto", "line 1, column 'arrival': 'nan' is not a finite number"),
    "text": ([gavel(steps="many")], "auto", "column 'total steps': 'many' is not a number"),
    "no workers": ([gavel(gpus=0)], "auto", "column 'scale factor': '0' is not a whole number of at least 1"),
    "part of a step": ([gavel(steps=1.5)], "auto", "column 'total steps'"),
    "weight": ([gavel(weight=0)], "auto", "column 'priority weight': '0' must be greater than 0"),
    "slo": ([gavel(slo=0)], "auto", "column 'SLO'"),
    "empty": ([""], "gavel", "the file is empty"),
    "canonical order": (
        ["arrival_s,gpus,steps", "5,1,1", "2,1,1"],
        "auto",
        "line 3, column 'arrival_s': 2 is earlier than 5",
    ),
    "canonical twice": (
        ["job,arrival_s,gpus,steps", "x,0,1,1", "x,1,1,1"],
        "auto",
        "line 3, column 'job': job 'x' was already on line 2",
    ),
    "canonical work": (["arrival_s,gpus", "0,1"], "auto", "neither steps nor duration_s"),
    "canonical gpus": (["arrival_s,gpus,steps", "0,0,1"], "auto", "column 'gpus': 0 is too small"),
    "canonical steps": (["arrival_s,gpus,steps", "0,1,1.5"], "auto", "column 'steps': 1.5 is not a whole number"),
    "truncated": (["arrival_s,gpus,steps", "0,1,1", "1,1"], "auto", "line 3: this line has 2 fields"),
    "swf order": ([swf(1, at=9), swf(2, at=3)], "swf", "line 2, column 'submit_time': 3 is earlier than 9"),
    "swf fields": (["1 2 3"], "swf", "line 1: this line has 3 fields; SWF has 18"),
    "swf twice": ([swf(1), swf(1)], "swf", "line 2, column 'job': job '1' was already on line 1"),
    "pai number": (
        [PAI.strip(), "j,w,one,T,1,2,1,1,100,V"],
        "auto",
        "line 2, column 'inst_num': 'one' is not a number",
    ),
    "pai fields": ([PAI.strip(), "j,w"], "auto", "line 2: this line has 2 fields"),
    "helios stamp": ([HELIOS.strip(), "1,u,v,1,1,1,C,yesterday,x,y,5,0"], "auto", "line 2, column 'submit_time'"),
    "gavel truncated": ([gavel(), gavel(at=3)[:40]], "auto", "line 2: this line has 4 tab-separated fields"),
    "canonical nan": ([CANONICAL, "nan,1,1"], "auto", "line 2, column 'arrival_s': 'nan' is not a finite number"),
    "canonical infinite": ([CANONICAL, "0,1,inf"], "auto", "line 2, column 'duration_s': 'inf' is not a finite number"),
    "canonical negative": ([CANONICAL, "0,1,-5"], "auto", "line 2, column 'duration_s': -5 is too small"),
    "canonical no gpus": ([CANONICAL, "0,nan,5"], "auto", "line 2, column 'gpus': 'nan' is not a whole number"),
    "canonical slo": ([CANONICAL + ",slo", "0,1,5,nan"], "auto", "line 2, column 'slo': 'nan' is not a finite number"),
    "philly stamp": ([PHILLY, "10,5,1,5,a"], "auto", "line 2, column 'timestamp': '10' is not a date and time"),
    "philly nan": ([PHILLY, STAMP + ",nan,1,5,a"], "auto", "line 2, column 'duration': 'nan' is not a finite number"),
    "philly gpus": ([PHILLY, STAMP + ",5,two,5,a"], "auto", "line 2, column 'num_gpus': 'two' is not a whole number"),
    "philly truncated": ([PHILLY, STAMP + ",5,1,5,a", STAMP + ",5"], "auto", "line 3: this line has 2 fields"),
    "philly log truncated": (['[{"submitted_time": "2017'], "philly", "line 1: not valid JSON"),
    "helios gpus": ([HELIOS.strip(), HELIOS_ROW.format(1, "x", 5)], "auto", "line 2, column 'gpu_num': 'x' is not"),
    "helios nan": ([HELIOS.strip(), HELIOS_ROW.format(1, 1, "nan")], "auto", "line 2, column 'duration': 'nan' is not"),
    "helios twice": (
        [HELIOS.strip(), *[HELIOS_ROW.format(1, 1, 5)] * 2], "auto",
        "line 3, column 'job': job '1' was already on line 2",
    ),
    "helios truncated": ([HELIOS.strip(), "1,u,v"], "auto", "line 2: this line has 3 fields, the header has 12"),
    "pai nan": ([PAI.strip(), "j,w,nan,T,1,2,1,1,100,V"], "auto", "line 2, column 'inst_num': nan must be a finite"),
    "swf nan": ([swf(1, at="nan")], "swf", "line 1, column 'submit_time': nan is not a legal value"),
    "unknown": (["a,b,c", "1,2,3"], "auto", "no known job trace starts like this"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_named_with_line_and_column(tmp_path: Path, case: str) -> None:
    lines, format, message = WRONG[case]
    path = file(tmp_path, "file.txt", *lines)
    with pytest.raises(TraceError) as error:
        read_jobs(path, format)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"arrival_s,gpus,duration_s\n" + b"0,1,60\n" * 1000)
    for name, content, message in (
        ("jobs.csv.gz", whole[: len(whole) // 2], "the compressed file ends too early"),
        ("jobs.parquet", b"PAR1xxxx", "not a readable Parquet file"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TraceError, match=message) as error:
            read_jobs(tmp_path / name)
        assert name in str(error.value)


def test_a_missing_file_and_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_jobs(tmp_path / "nothing.trace")
    with pytest.raises(UnknownNameError, match="did you mean 'gavel'"):
        read_jobs(tmp_path / "x", "gavell")
    known = {
        "canonical",
        "gavel",
        "philly",
        "helios",
        "acme",
        "alibaba-pai",
        "swf",
        "sacct",
        "kueue",
        "columns",
        "openb",
        "gentd26",
    }
    assert set(JOB_TRACES) == known
    assert detect(file(tmp_path, "x.swf", swf(1))) == "swf"


def test_durations_become_steps_on_the_reference_type(tmp_path: Path) -> None:
    path = file(tmp_path, "j.csv", "arrival_s,gpus,job_type,duration_s,slo", "0,2,a,10,2", "5,1,b,0.1,")
    one, two = to_jobs(read_jobs(path), table(), "fast")
    assert (one.total_steps, one.deadline_s) == (40.0, 20.0)
    assert (two.total_steps, two.deadline_s) == (1.0, None)


def test_models_are_drawn_by_a_seeded_rule_that_does_not_depend_on_the_other_rows(tmp_path: Path) -> None:
    rows = [f"{n},1,60" for n in range(40)]
    whole = read_jobs(file(tmp_path, "j.csv", "arrival_s,gpus,duration_s", *rows))
    names = [job.job_type for job in to_jobs(whole, table(), "fast", seed=3)]
    assert set(names) == {"a", "b"}
    assert names == [job.job_type for job in to_jobs(whole, table(), "fast", seed=3)]
    assert names[:10] == [
        job.job_type for job in to_jobs(whole.select(slice(0, 10)), table(), "fast", seed=3)
    ]
    assert names != [job.job_type for job in to_jobs(whole, table(), "fast", seed=4)]


def test_sizes_that_were_not_measured_are_an_error_or_a_marked_estimate(tmp_path: Path) -> None:
    rows = read_jobs(file(tmp_path, "j.csv", "arrival_s,gpus,duration_s", "0,16,60"))
    with pytest.raises(ConfigError, match="job '0' asks for 16 devices"):
        to_jobs(rows, table(), "fast")
    wider = extended(table(), [16], 0.5)
    assert wider.alone[wider.row("a", 16)].tolist() == [
        8.0,
        4.0,
    ]  # 2 doublings from 4 workers, each worth nothing
    assert "estimated" in wider.source
    assert to_jobs(rows, wider, "fast")[0].scale_factor == 16


def test_unknown_reference_types_and_missing_figures_name_the_type_and_the_job(tmp_path: Path) -> None:
    rows = read_jobs(file(tmp_path, "j.csv", "arrival_s,gpus,job_type,duration_s", "0,1,a,60"))
    with pytest.raises(PlatformError, match="'tpu' has no throughputs"):
        to_jobs(rows, table(), "tpu")
    still = ThroughputTable((("a", 1),), ("fast", "slow"), np.array([[0.0, 1.0]]))
    with pytest.raises(
        PlatformError, match="job '0': 'a' with 1 workers has no throughput on the reference type 'fast'"
    ):
        to_jobs(rows, still, "fast")


def test_the_continuous_generator_follows_its_distributions() -> None:
    whole = ThroughputTable.of({"a": {"fast": 1.0}}, 1)
    keys = tuple(("a", s) for s in (1, 2, 4, 8))
    full = ThroughputTable(keys, ("fast",), np.ones((4, 1)))
    trace = generate(full, "fast", 20_000, 100.0, priorities=True, slos=True, tenants=4, seed=1)
    share = [float((trace.gpus == s).mean()) for s in (1, 2, 4, 8)]
    assert share == pytest.approx([0.70, 0.10, 0.15, 0.05], abs=0.01)
    minutes = trace.duration_s / 60.0
    assert minutes.min() >= 10**1.5 and minutes.max() <= 10**4
    assert float((minutes > 1000.0).mean()) == pytest.approx(0.2, abs=0.01)
    assert float(np.diff(trace.arrival_s).mean()) == pytest.approx(100.0, rel=0.03)
    assert float((trace.weight == 5.0).mean()) == pytest.approx(0.2, abs=0.01)
    assert set(trace.slo.tolist()) == {1.2, 2.0, 10.0}
    with pytest.raises(ConfigError, match="no job type runs with 2 workers"):
        generate(whole, "fast", 100)


def test_the_other_generators() -> None:
    full = table((1, 2, 4, 8))
    hours = generate(full, "fast", 500, kind="hours", seed=2)
    assert set((hours.duration_s / 3600.0).tolist()) == {1.0, 2.0, 3.0, 4.0}
    assert set(hours.gpus.tolist()) == {1, 2, 4}
    static = generate(full, "fast", 50, kind="static", multi_gpu=False)
    assert static.arrival_s.max() == 0.0 and static.gpus.max() == 1
    again = generate(full, "fast", 500, kind="hours", seed=2)
    assert (again.arrival_s == hours.arrival_s).all() and (again.job_type == hours.job_type).all()
    with pytest.raises(PlatformError, match="'x' has no throughputs"):
        generate(full, "x", 1)


def test_a_parquet_file_of_too_many_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    pq.write_table(
        pa.table({"arrival_s": [0.0, 1.0, 2.0], "gpus": [1, 1, 1], "steps": [5.0, 5.0, 5.0]}), path
    )
    assert len(read_jobs(path, max_rows=3)) == 3
    with pytest.raises(TraceError, match="3 rows, more than 2"):
        read_jobs(path, max_rows=2)
