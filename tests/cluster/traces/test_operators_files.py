"""Operators' own files: strangers' variants are read, and each wrong one is one sentence with place and remedy."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.cluster.traces import FORMATS, read_jobs
from eunomia.cluster.traces.canonical import write
from eunomia.cluster.traces.columns import mapping_of
from eunomia.cluster.traces.kubernetes import devices
from eunomia.cluster.traces.logged import logged
from eunomia.cluster.traces.slurm_text import gpus_of, moment_s, span_s
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError, TraceError, UnknownNameError
from eunomia.study.cluster import run_cluster

HEAD = "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|Elapsed|Timelimit|ReqTRES|AllocTRES"
ROW = (
    "{id}|ann|bio|gpu|normal|{state}|2024-03-01T10:00:00|{eligible}|{start}|{run}|{limit}|"
    "{asked}|billing=8,cpu=8,{had},mem=64G,node=1"
)
USUAL = {
    "id": "7", "state": "COMPLETED", "eligible": "2024-03-01T10:00:00", "start": "2024-03-01T10:05:00",
    "run": "01:00:00", "limit": "1-00:00:00", "asked": "cpu=8,gres/gpu=2", "had": "gres/gpu:a100=2,gres/gpu=2",
}  # fmt: skip
WORKLOAD = json.loads(json.dumps({
    "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
    "metadata": {"name": "w", "namespace": "team", "creationTimestamp": "2024-03-01T10:00:00Z"},
    "spec": {"queueName": "main", "priority": 5, "maximumExecutionTimeSeconds": 9000, "podSets": [
        {"count": 1, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "4"}}}]}}},
        {"count": 2, "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}}},
    ]},
    "status": {
        "admission": {"podSetAssignments": [{"flavors": {"cpu": "any", "nvidia.com/gpu": "a100"}}]},
        "conditions": [
            {"type": "Admitted", "status": "True", "lastTransitionTime": "2024-03-01T10:01:40Z"},
            {"type": "Finished", "status": "True", "lastTransitionTime": "2024-03-01T11:01:40Z"},
        ],
    },
}))  # fmt: skip


def row(**change: str) -> str:
    return ROW.format(**{**USUAL, **change})


def file(folder: Path, text: str, name: str = "log") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def kueue(folder: Path, *objects: object, name: str = "w.json") -> Path:
    return file(folder, json.dumps({"kind": "List", "items": list(objects)}), name)


def changed(*keys: str | int, to: object) -> dict[str, object]:
    """The workload with one value changed, or (None) removed."""
    found = json.loads(json.dumps(WORKLOAD))
    place = found
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    return found


# --- how Slurm writes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2-03:04:05", 183_845.0), ("03:04:05", 11_045.0), ("04:05", 245.0), ("04:05.250", 245.0), ("7-0", 604_800.0),
        ("1-02:30", 95_400.0), ("90", 5400.0), ("UNLIMITED", math.inf), ("1:2:3:4", None), ("soon", None), ("", None),
    ],
)  # fmt: skip
def test_spans(text: str, seconds: float | None) -> None:
    assert span_s(text) == seconds


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_spans_as_sacct_prints_them(days: int, hours: int, minutes: int, seconds: int) -> None:
    printed = f"{days}-" if days else ""
    assert (
        span_s(f"{printed}{hours:02}:{minutes:02}:{seconds:02}")
        == ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    )


def test_moments_and_resources() -> None:
    assert (
        moment_s("1970-01-02T00:00:00")
        == moment_s("1970-01-02T01:00:00+01:00")
        == moment_s("86400")
        == 86_400.0
    )
    assert (
        moment_s("2024/03/01-10:00:05") == moment_s("2024-03-01T10:00:05") and moment_s("yesterday") is None
    )
    assert gpus_of("cpu=1,gres/gpu=4,gres/gpu:a100=4") == (4, ("a100",))
    assert gpus_of("gres/gpu:a100=1,gres/gpu:v100=2") == (3, ("a100", "v100"))
    assert gpus_of("cpu=1,mem=1G") == gpus_of("") == (0, ())
    assert gpus_of("gres/gpu=four") is gpus_of("junk") is None


def test_quantities_of_devices_as_kubernetes_writes_them() -> None:
    path, known = (
        Path("q.yaml"),
        {"4": 4, 8: 8, "4000m": 4, "2k": 2000, "1Ki": 1024, "4.0": 4, "2e1": 20, 3.0: 3},
    )
    assert {given: devices(path, "x", given) for given in known} == known
    with pytest.raises(TraceError, match="'1Gi' devices are too many; write at most 10,000,000"):
        devices(path, "x", "1Gi")
    for wrong in ("500m", "1.5", "-2", "a few", True, ""):
        with pytest.raises(TraceError, match="is no number of devices; write a whole number"):
            devices(path, "x", wrong)


# --- sacct


def test_a_log_with_steps_arrays_requeues_and_jobs_that_never_ran(tmp_path: Path) -> None:
    lines = [
        row(), row(id="7.batch", had="gres/gpu=2"), row(id="7.0"), row(id="8_3", run="2-03:04:05", limit="UNLIMITED"),
        row(id="8_[4-9%2]", state="PENDING", start="Unknown", run="00:00:00"),
        row(id="9", state="CANCELLED by 1000", start="None"), row(id="10", had="mem=1G", asked="cpu=1"),
        row(id="11", state="NODE_FAIL", run="00:10:00"), row(id="11", state="RUNNING", start="2024-03-01T12:00:00"),
        row(id="12", had="gres/gpu:a100=1,gres/gpu:v100=1"),
        row(id="13+0", asked="gres/gpu:v100=1", had="gres/gpu:v100=1"),
        row(id="14", eligible="2024-03-01T10:04:00", state="OUT_OF_MEMORY", limit="Partition_Limit"),
    ]  # fmt: skip
    found = read_jobs(file(tmp_path, "\n".join([HEAD, *lines]) + "\n"))
    assert (found.format, found.ids) == ("sacct", ("7", "8_3", "11", "13+0", "14"))
    assert found.gpus.tolist() == [2, 2, 2, 1, 2] and found.tenants == ("bio/ann",)
    assert found.duration_s.tolist() == [3600.0, 183_845.0, 600.0 + 3600.0, 3600.0, 3600.0]
    assert found.arrival_s.tolist() == [0.0, 0.0, 0.0, 0.0, 240.0]
    assert found.more["wait_s"].tolist() == [300.0, 300.0, 300.0, 300.0, 60.0]
    assert found.more["ran_on"].tolist() == ["a100", "a100", "a100", "v100", "a100"]
    assert found.more["device"].tolist() == ["", "", "", "v100", ""]
    limits = found.more["time_limit_s"]
    assert limits[0] == 86_400.0 and np.isnan(limits[[1, 4]]).all()  # type: ignore[arg-type]
    said = " ".join(found.notes)
    for part in (
        "1 jobs without GPU",
        "2 jobs that never ran",
        "1 jobs on several",
        "1 jobs were still",
        "1 jobs were requeued",
    ):
        assert part in said


@pytest.mark.parametrize("mark", ["|", ",", ";"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_other_marks_line_ends_raw_columns_and_gzip(tmp_path: Path, mark: str, ending: str) -> None:
    head = mark.join(
        ["Submit", "JobIDRaw", "JobID", "State", "Start", "ElapsedRaw", "TimelimitRaw", "AllocTRES"]
    )
    cells = mark.join(["1709287200", "9", "8", "TIMEOUT", "1709287260", "90", "60", "gres/gpu=1"])
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(f"\ufeff{head}{mark}{ending}{cells}{mark}{ending}".encode()))
    found = read_jobs(path, "sacct")
    assert (found.ids, found.tenants, found.duration_s.tolist()) == (("8",), ("all",), [90.0])
    assert found.more["wait_s"].tolist() == [60.0] and found.more["time_limit_s"].tolist() == [3600.0]


def test_what_a_log_says_goes_through_the_canonical_schema(tmp_path: Path) -> None:
    found = read_jobs(file(tmp_path, f"{HEAD}\n{row()}\n{row(id='8', limit='UNLIMITED')}\n"))
    for name in ("jobs.csv", "jobs.parquet"):
        again = read_jobs(write(found, tmp_path / name))
        for column in ("wait_s", "time_limit_s", "device", "ran_on", "partition", "qos"):
            assert list(map(str, again.more[column])) == list(map(str, found.more[column])), column


# --- Kueue


def test_workloads_with_local_queues(tmp_path: Path) -> None:
    local = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue",
             "metadata": {"name": "main", "namespace": "team"}, "spec": {"clusterQueue": "research"}}  # fmt: skip
    waiting = changed("metadata", "name", to="later")
    waiting["status"] = {}
    cpu = changed("metadata", "name", to="cpu")
    cpu["spec"]["podSets"] = cpu["spec"]["podSets"][:1]  # type: ignore[index]
    found = read_jobs(kueue(tmp_path, WORKLOAD, local, waiting, cpu))
    assert (found.format, found.ids, found.tenants) == ("kueue", ("team/w",), ("research",))
    assert (found.gpus.tolist(), found.duration_s.tolist()) == ([8], [3600.0])
    assert {name: values[0] for name, values in found.more.items()} == {
        "wait_s": 100.0, "time_limit_s": 9000.0, "priority": 5.0, "ran_on": "a100",
    }  # fmt: skip
    assert "1 workloads without GPU" in found.notes[1] and "1 workloads that did not finish" in found.notes[2]


def test_a_list_from_the_server_and_fewer_pods_than_asked_for(tmp_path: Path) -> None:
    """``kubectl get --raw`` leaves out the kind of items. A partial admission holds the GPUs of its pods only."""
    part = changed("status", "admission", "podSetAssignments", to=[{"name": "workers", "count": 1}])
    part["spec"]["podSets"][1]["name"] = "workers"  # type: ignore[index]
    del part["kind"], part["apiVersion"]
    items = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadList", "items": [part]}
    assert read_jobs(file(tmp_path, json.dumps(items), "w.json")).gpus.tolist() == [4]


def test_gpus_of_claims_are_those_that_the_admission_counts(tmp_path: Path) -> None:
    """Dynamic resource allocation: containers name claims, and the quota counts them for all pods of a set."""
    claims = [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]
    one = changed(
        "spec", "podSets", to=[{"name": "main", "count": 3, "template": {"spec": {"containers": claims}}}]
    )
    used = {
        "name": "main",
        "count": 3,
        "flavors": {"nvidia.com/gpu": "a"},
        "resourceUsage": {"nvidia.com/gpu": "6"},
    }
    one["status"]["admission"]["podSetAssignments"] = [used]  # type: ignore[index]
    assert read_jobs(kueue(tmp_path, one)).gpus.tolist() == [6]


def test_yaml_documents_one_after_the_other(tmp_path: Path) -> None:
    example = FORMATS.find("kueue").example
    one = "---\n" + json.dumps(WORKLOAD) + "\n---\n" + json.dumps(changed("metadata", "name", to="v")) + "\n"
    assert read_jobs(file(tmp_path, one, "w.yaml")).ids == ("team/w", "team/v")
    found = read_jobs(file(tmp_path, example, "x.yaml"))
    assert found.gpus.tolist() == [8, 8] and found.more["wait_s"].tolist() == [300.0, 240.0]


# --- any table, and what SWF and others say


def test_any_table_by_a_mapping(tmp_path: Path) -> None:
    path = file(tmp_path, "Queued At;Cards;Started;Secs;Group;Who;Kind\n10;2;15;1-00:00:00;bio;ann;a100|h100\n"
                          "5;1;;;bio;bob;\n7;0;9;9;bio;bob;\n8;4;8.5;60;chem;cy;\n")  # fmt: skip
    mapping = mapping_of(["submit=Queued At", "gpus=Cards", "start=Started", "duration=Secs", "tenant=Group+Who",
                          "device=Kind"])  # fmt: skip
    found = read_jobs(path, columns=mapping)
    assert (found.ids, found.tenants) == (("1", "0"), ("bio/ann", "chem/cy"))
    assert found.arrival_s.tolist() == [0.0, 2.0] and found.duration_s.tolist() == [60.0, 86_400.0]
    assert found.more["wait_s"].tolist() == [0.5, 5.0] and found.more["device"].tolist() == ["", "a100,h100"]
    assert "2 rows without device or run time" in found.notes[1]


def test_swf_has_waits_limits_and_parts_of_jobs(tmp_path: Path) -> None:
    lines = ["1 0 30 60 4 -1 -1 4 120 -1 1 7 1 1 2 3 -1 -1", "2 5 -1 60 8 -1 -1 8 -1 -1 1 7 1 1 1 -1 -1 -1"]
    lines += ["2 5 0 20 8 -1 -1 8 -1 -1 2 7 1 1 1 -1 -1 -1"]
    found = read_jobs(file(tmp_path, "\n".join(lines) + "\n", "log.swf"))
    assert found.more["wait_s"][0] == 30.0 and np.isnan(float(found.more["wait_s"][1]))
    assert found.more["time_limit_s"][0] == 120.0 and found.more["partition"].tolist() == ["3", "-1"]
    assert "1 lines of parts" in found.notes[1]


# --- wrong files


SACCT_WRONG = [
    ("7|ann\n", "line 1: the first line names no column JobID; write the log with a header"),
    ("       JobID      State\n7  COMPLETED\n", "line 1: the columns are cut to a width; write the log"),
    ("JobID|State|Submit|Start|Elapsed\n", "line 1, column 'AllocTRES or ReqTRES': this column is missing; add it"),
    ("JobID|State|Submit|Start|AllocTRES\n", "line 1, column 'ElapsedRaw or Elapsed': this column is missing; add it"),
    ("JobID|JobID|State|Submit\n", "line 1, column 'JobID': this column appears twice; name it once"),
    (f"{HEAD}\n{row()}|more\n", "line 2: this line has 14 fields, the header has 13; where names hold '|', choose"),
    (f"{HEAD}\n{row(state='DONE')}\n", "line 2, column 'State': 'DONE' is no state of Slurm; write it as sacct does"),
    (f"{HEAD}\n{row(start='10:05 today')}\n", "line 2, column 'Start': '10:05 today' is no time; write 2024-03"),
    (f"{HEAD}\n\n{row(run='long')}\n", "line 3, column 'Elapsed': 'long' is no span; write 2-03:04:05"),
    (f"{HEAD}\n{row(limit='a day')}\n", "line 2, column 'Timelimit': 'a day' is no time limit; write minutes"),
    (f"{HEAD}\n{row(asked='2 GPUs')}\n", "line 2, column 'ReqTRES': '2 GPUs' is no list of resources; write cpu=8"),
    (f"{HEAD}\n{row(had='mem=1G', asked='')}\n", "ran on a GPU (1 without GPU, 0 never ran, 0 on several types)"),
    (f"{HEAD}\n" + "x" * 70_000, "line 2: this line is longer than 65536 bytes; check that the file is a log"),
]  # fmt: skip
KUEUE_WRONG: list[tuple[object, str]] = [
    (changed("spec", "podSets", to="many"), "workload 'team/w': podSets must be a list of tables"),
    (changed("spec", "podSets", 1, "count", to=-2), "workload 'team/w': '-2' is no number of devices; write a whole"),
    (changed("spec", "priority", to="high"), "workload 'team/w': priority is 'high'; it must be a whole number"),
    (changed("metadata", "creationTimestamp", to="early"), "'team/w': creationTimestamp is 'early'; write a time"),
    (changed("metadata", to={}), "a Workload has no metadata.name; write the file with kubectl"),
    (changed("kind", to="Pod"), "no Workload among Pod; write them with kubectl get workloads -A -o yaml"),
    (changed("status", to={}), "no workload with GPUs ran to its end (0 without GPU, 1 not finished); export them"),
    (changed("status", to=[]), "workload 'team/w': status must be a table of keys"),
]  # fmt: skip
TABLE_WRONG = [
    (
        "submit,gpus\n1,2\n",
        {},
        "line 1: jobs need submit, gpus, and duration or start and end; give the missing ones",
    ),
    ("a,b,c\n1,2,3\n", {"submit": "x"}, "line 1: there is no column 'x' for submit; the header has: a, b, c"),
    ("submit,gpus,duration\n1,2.5,3\n", {}, "line 2, column 'gpus': 2.5 is no whole number of devices"),
    (
        "submit,gpus,duration\nnow,2,3\n",
        {},
        "line 2, column 'submit': 'now' is no time; write 2024-03-01 10:00:00",
    ),
    (
        "submit,gpus,duration\n1,2,-3\n",
        {},
        "line 2, column 'duration': '-3' is no number of at least 0; correct it",
    ),
    (
        "submit,gpus,start,end\n1,2,5,3\n",
        {},
        "line 2, column 'end': the job ends before it starts; check the mapping",
    ),
    (
        "submit,gpus,duration,start\n9,2,5,3\n",
        {},
        "line 2, column 'start': the job starts before it was submitted",
    ),
    ("submit,gpus,duration\n1,2\n", {}, "line 2: this line has 2 fields, the header has 3"),
    (
        "submit,gpus,duration,job\n1,2,3,a\n1,2,3,a\n",
        {},
        "line 3, column 'job': job 'a' was already on line 2",
    ),
    (
        "submit,gpus,duration\n1,0,3\n",
        {},
        "no row is a job that ran on a device; check the mapping of gpus and",
    ),
]


def one_sentence(error: TraceError, path: Path) -> str:
    text = str(error)
    assert text.startswith(str(path)) and "\n" not in text and not text.endswith(".")
    return text


@pytest.mark.parametrize(("text", "message"), SACCT_WRONG, ids=range(len(SACCT_WRONG)))
def test_a_wrong_log(tmp_path: Path, text: str, message: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_jobs(path, "sacct")
    assert message in one_sentence(caught.value, path)


@pytest.mark.parametrize(("workload", "message"), KUEUE_WRONG, ids=range(len(KUEUE_WRONG)))
def test_a_wrong_workload(tmp_path: Path, workload: object, message: str) -> None:
    path = kueue(tmp_path, workload)
    with pytest.raises(TraceError) as caught:
        read_jobs(path, "kueue")
    assert message in one_sentence(caught.value, path)


@pytest.mark.parametrize(("text", "mapping", "message"), TABLE_WRONG, ids=range(len(TABLE_WRONG)))
def test_a_wrong_table(tmp_path: Path, text: str, mapping: dict[str, str], message: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_jobs(path, "columns", columns=mapping)
    assert message in one_sentence(caught.value, path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1: not valid JSON"),
        (b"kind: [\n", "not valid YAML"),
        (b"- 3\n", "an entry is no object with a kind"),
        (b"---\n", "the file holds no object; write it with kubectl get ... -o yaml"),
        (b"\xff\xfe", "the file is not UTF-8 text (byte 0); write it with kubectl"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_list_of_objects(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read_jobs(path, "kueue")
    assert message in one_sentence(caught.value, path)


def test_wrong_mappings() -> None:
    with pytest.raises(ConfigError, match="--column gpus: write NAME=COLUMN"):
        mapping_of(["gpus"])
    with pytest.raises(ConfigError, match="names 'gpus' twice"):
        mapping_of(["gpus=a", "gpus=b"])
    with pytest.raises(UnknownNameError, match="unknown column of jobs 'gpu'; did you mean 'gpus'"):
        read_jobs("x.csv", columns={"gpu": "a"})
    with pytest.raises(ConfigError, match="format 'columns' only, not for 'swf'"):
        read_jobs("x.csv", "swf", columns={"gpus": "a"})


def test_a_file_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(HEAD.encode() + b"\n\xff\xfe\n")
    with pytest.raises(TraceError, match="line 2: the line is not UTF-8 text"):
        read_jobs(path, "sacct")
    path.write_bytes(gzip.compress(HEAD.encode())[:-4])
    with pytest.raises(TraceError, match="damaged or ends too early; fetch it again"):
        read_jobs(path, "sacct")
    with pytest.raises(TraceError, match="cannot be read"):
        read_jobs(tmp_path / "none", "sacct")


# --- run times of a log


LOG = "submit,gpus,duration,job,device,ran_on\n0,2,100,a,,slow\n1,1,60,b,fast,\n2,1,60,c,,\n"


def test_run_times_hold_on_the_type_they_were_measured_on(tmp_path: Path) -> None:
    """Slow is half as fast: 100 s there are 50 s on fast. b may run on fast alone; c is meant on the first type."""
    cluster = Cluster.of({"fast": 2, "slow": 2})
    jobs, table, said = logged(read_jobs(file(tmp_path, LOG)), cluster, {"fast": 2.0, "slow": 1.0})
    seconds = [[job.total_steps / s if s else 0.0 for s in table.matrix([job], cluster)[0]] for job in jobs]
    assert seconds == [[50.0, 100.0], [60.0, 0.0], [60.0, 120.0]]
    assert said[-1] == "1 jobs do not say where they ran: their run times are meant on 'fast'"
    equal = logged(read_jobs(file(tmp_path, LOG)), cluster, {"fast": 1.0, "slow": 1.0})[2]
    assert "run times are taken to be the same on every type" in equal[1]


def test_what_a_log_and_a_cluster_do_not_agree_on(tmp_path: Path) -> None:
    trace = read_jobs(file(tmp_path, LOG))
    with pytest.raises(
        ConfigError, match="relative names no speed of 'slow'; give one for every device type"
    ):
        logged(trace, Cluster.of({"fast": 2, "slow": 2}), {"fast": 2.0})
    with pytest.raises(UnknownNameError, match="device type 'fast' of job 'b'"):
        logged(trace, Cluster.of({"slow": 2}), {"slow": 1.0})
    with pytest.raises(
        TraceError, match="job 'a' asks for 2 devices of fast, slow, more than there are; raise count"
    ):
        logged(trace, Cluster.of({"fast": 1, "slow": 1}), {"fast": 2.0, "slow": 1.0})


def test_models_are_invented_only_if_asked_for_and_said(tmp_path: Path) -> None:
    """Before, the jobs of a log got networks by lot, and nothing said so."""
    models = [{"name": name, "speed": {"gpu": 2.0, "npu": 1.0}, "scales": [1, 2]} for name in ("m", "n")]
    trace = {"path": str(file(tmp_path, "submit,gpus,duration\n0,2,100\n1,1,60\n")), "format": "columns"}
    config = {
        "name": "x", "device": [{"type": "gpu", "count": 4}, {"type": "npu", "count": 4}],
        "throughputs": {"model": models}, "trace": trace,
    }  # fmt: skip
    with pytest.raises(
        ConfigError, match="2 of 2 jobs name no model, and the throughput table has 2; map a column"
    ) as no:
        run_cluster(config, "fifo")
    assert "trace.draw_models = true" in str(no.value)
    said = " ".join(run_cluster({**config, "trace": {**trace, "draw_models": True}}, "fifo").remarks)
    assert "2 of 2 jobs name no network: each got one drawn from the throughput table" in said
    assert (
        "run times of the log are taken as times on 'gpu' (the first device type; trace.reference names"
        in said
    )
    told = run_cluster(
        {**config, "trace": {**trace, "draw_models": True, "reference": "npu"}}, "fifo"
    ).remarks
    assert "taken as times on 'npu' (trace.reference)" in " ".join(told)
    one = " ".join(run_cluster({**config, "throughputs": {"model": models[:1]}}, "fifo").remarks)
    assert "2 of 2 jobs name no network: each is taken for a 'm'" in one
    kept = run_cluster({**config, "throughputs": {"relative": {"gpu": 1.0, "npu": 0.5}}}, "fifo")
    assert "drawn" not in " ".join(kept.remarks)
    assert kept.records["jobs"]["total_steps"].to_pylist() == [100.0, 60.0]
