"""Jobs, clusters, throughputs and the view: what they hold, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eunomia.cluster.job import TrainingJob, unique_jobs
from eunomia.cluster.shares import isolated_shares, isolated_throughput, proportional_share
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import Holdings
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.errors import ConfigError, PlatformError, TraceError, UnknownNameError
from tests.cluster.views import view_of
from tests.shared_data import shared

JOB = TrainingJob("j", "net", 100.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total_steps": 0.0}, "job 'j': total_steps is 0.0; it must be a positive number"),
        ({"total_steps": float("nan")}, "total_steps is nan"),
        ({"weight": -1.0}, "weight is -1.0"),
        ({"arrival_s": float("nan")}, "arrival_s is nan"),
        (
            {"arrival_s": 10.0, "deadline_s": 5.0},
            "deadline_s is 5.0; it must be later than its arrival at 10 s",
        ),
        ({"scale_factor": 0}, "scale_factor is 0"),
        ({"scale_factor": 8, "max_scale": 4}, "scale_factor is 8"),
        ({"memory_gib": 0.0}, "memory_gib is 0.0"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        replace(JOB, **change)


def test_ids_are_unique_and_jobs_come_in_order_of_arrival() -> None:
    late, early = replace(JOB, job_id="late", arrival_s=9.0), replace(JOB, job_id="early")
    assert [job.job_id for job in unique_jobs([late, early])] == ["early", "late"]
    with pytest.raises(ConfigError, match="'j' occurs twice"):
        unique_jobs([JOB, JOB])


def test_servers_and_racks_of_a_cluster() -> None:
    cluster = Cluster((DeviceType("a", 10, 4, servers_per_rack=2), DeviceType("b", 2)))
    assert cluster.server_size.tolist() == [4, 4, 2, 2]
    assert cluster.server_type.tolist() == [0, 0, 0, 1]
    assert cluster.server_rack.tolist() == [0, 0, 1, 2]
    assert cluster.with_counts({"b": 0, "a": 3}).counts.tolist() == [3]


def test_a_cluster_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a': count is 0"):
        Cluster.of({"a": 0})
    with pytest.raises(ConfigError, match="'a' occurs twice"):
        Cluster((DeviceType("a", 1), DeviceType("a", 1)))
    with pytest.raises(UnknownNameError, match="device type 'v10'; did you mean 'v100'"):
        Cluster.of({"v100": 1}, cost_per_hour={"v10": 1.0})
    with pytest.raises(UnknownNameError, match="device type"):
        Cluster.of({"v100": 1}).column("k80")


def test_a_throughput_that_is_missing_is_an_error_that_names_job_and_type() -> None:
    table = ThroughputTable.of({"net": {"a": 2.0, "b": 0.0}, "other": {"a": 1.0}})
    cluster = Cluster.of({"a": 2, "b": 2})
    assert table.matrix([JOB], cluster).tolist() == [[2.0, 0.0]]
    with pytest.raises(PlatformError, match=r"job 'j': 'other' with 1 worker was not measured on 'b'"):
        table.matrix([replace(JOB, job_type="other")], cluster)
    with pytest.raises(
        PlatformError, match=r"job 'j': no throughput for 'net' with 4 workers.*scale factors \[1\]"
    ):
        table.matrix([replace(JOB, scale_factor=4)], cluster)
    with pytest.raises(PlatformError, match="not in the table"):
        table.matrix([replace(JOB, job_type="ghost")], cluster)
    with pytest.raises(PlatformError, match="device type 'c' has no throughputs; measured: a, b"):
        table.matrix([JOB], Cluster.of({"c": 1}))


def test_a_job_that_can_run_nowhere_is_told_why_on_each_type() -> None:
    keys, types = (("net", 4),), ("a", "b", "c")
    table = ThroughputTable(keys, types, np.array([[3.0, 0.0, 5.0]]))
    cluster = Cluster((DeviceType("a", 2), DeviceType("b", 8), DeviceType("c", 8, memory_gib=16.0)))
    job = replace(JOB, scale_factor=4, memory_gib=20.0)
    expected = "can run nowhere: 'a': 2 devices; 'b': throughput 0; 'c': 16 GiB each"
    with pytest.raises(PlatformError, match=expected):
        table.matrix([job], cluster)


@pytest.mark.parametrize("value", (-1.0, float("inf")))
def test_impossible_throughputs_are_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="throughput of 'net' with 1 worker on 'a' is"):
        ThroughputTable.of({"net": {"a": value}})


def test_gavels_table_is_read_as_its_description_says() -> None:
    table = ThroughputTable.from_gavel_json(shared("gavel/simulation_throughputs.json"))
    assert (len(table.keys), len(table.job_types), table.types) == (83, 26, ("k80", "p100", "v100"))
    cluster = Cluster.of({"v100": 8, "p100": 8, "k80": 8})
    resnet = TrainingJob("0", "ResNet-50 (batch size 64)", 1.0)
    assert table.matrix([resnet], cluster)[0] == pytest.approx([4.39, 2.62, 0.62], abs=0.005)
    four = replace(resnet, scale_factor=4)
    assert table.matrix([four], cluster)[0, 0] == pytest.approx(9.45, abs=0.005)
    assert table.spread_matrix([four], cluster)[0, 0] == pytest.approx(11.14, abs=0.005)
    assert table.scales("A3C") == (1,)
    fast = [table.alone[table.row(name, 1)] for name in table.job_types]
    ratio = [row[2] / row[0] for row in fast if row[0] > 0]
    assert (min(ratio), max(ratio)) == (pytest.approx(0.66, abs=0.005), pytest.approx(11.6, abs=0.05))
    beside = table.beside_of(cluster)
    a, b = table.row("ResNet-18 (batch size 16)", 1), table.row("ResNet-18 (batch size 256)", 1)
    assert (beside[a, b, 0], beside[b, a, 0]) == (
        pytest.approx(24.4546, abs=1e-3),
        pytest.approx(10.3003, abs=1e-3),
    )


def test_tables_that_cannot_be_read_name_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("{\n  oops")
    with pytest.raises(TraceError, match=r"t\.json, line 2"):
        ThroughputTable.from_gavel_json(path)
    path.write_text(json.dumps({"v100": {"('a', 1)": {"other": 1}}}))
    with pytest.raises(TraceError, match="no throughput alone"):
        ThroughputTable.from_gavel_json(path)
    with pytest.raises(ConfigError, match="no throughput table at"):
        ThroughputTable.from_gavel_json(tmp_path / "none.json")
    csv = tmp_path / "t.csv"
    csv.write_text("job_type,scale_factor,a,b\nnet,1,2.5,\nnet,2,x,1\n")
    with pytest.raises(TraceError, match=r"t\.csv, line 3, column 'a'.*not a number"):
        ThroughputTable.from_csv(csv)
    for text, message in (
        ("job_type,scale_factor,a,b\nnet,1.5,1,1\n", r"line 2, column 'scale_factor'.*not a whole number"),
        ("job_type,scale_factor,a,b\nnet,nan,1,1\n", "not a whole number of workers"),
        ("job_type,scale_factor,a,b\nnet,0,1,1\n", "not a whole number of workers"),
        ("job_type,scale_factor,a,b\nnet,1,1,1,1\n", "line 2: the row has more than 4 columns"),
        ("job_type,scale_factor,a,a\nnet,1,1,1\n", "each once"),
        ("net,1,1,1\n", "each once"),
        ("job_type,scale_factor,a\n", "no throughputs after the header"),
    ):
        csv.write_text(text)
        with pytest.raises(TraceError, match=message):
            ThroughputTable.from_csv(csv)
    for entry in ('"x"', "[1.0]", "[1.0, NaN]", "[1.0, -2.0]"):
        path.write_text('{"v100": {"(\'a\', 1)": {"null": 1.0, "(\'b\', 1)": ' + entry + "}}}")
        with pytest.raises(TraceError, match=r"on 'v100', .* is not steps/s"):
            ThroughputTable.from_gavel_json(path)
    with pytest.raises(ConfigError, match="no throughput table at"):
        ThroughputTable.from_csv(tmp_path / "none.csv")
    for missing in ("", "nan"):  # a figure that nobody measured is no figure
        csv.write_text(f"job_type,scale_factor,a,b\nnet,1,2.5,{missing}\n")
        table = ThroughputTable.from_csv(csv)
        assert table.alone[0, 0] == 2.5
        assert np.isnan(table.alone[0, 1])
        with pytest.raises(PlatformError, match="job 'j': 'net' with 1 worker was not measured on 'b'"):
            table.matrix([JOB], Cluster.of({"a": 1, "b": 1}))
    csv.write_text("job_type,scale_factor,a\nnet,1,2.5\nnet,1,2.5\n")
    with pytest.raises(ConfigError, match="throughput of 'net' with 1 worker is given twice"):
        ThroughputTable.from_csv(csv)


def test_reference_shares_by_hand() -> None:
    counts, scale = np.array([2, 6]), np.array([1, 2])
    assert proportional_share(counts).tolist() == [0.25, 0.75]
    # job 0: (1, 3) cut to (1/4, 3/4); job 1: (1/2, 3/2) cut to the same
    assert isolated_shares(counts, scale).tolist() == [[0.25, 0.75], [0.25, 0.75]]
    assert isolated_throughput(np.array([[4.0, 0.0], [4.0, 8.0]]), counts, scale).tolist() == [1.0, 7.0]


def test_a_view_of_some_jobs_keeps_their_facts_and_holdings() -> None:
    holdings = Holdings(np.array([0, 2, 2]), np.array([0, 0, 1]), np.array([1, 1, 2]))
    view = view_of(Cluster.of({"a": 8}, 4), [[1.0], [2.0], [3.0]], holdings=holdings)
    some = view.take(np.array([1, 2]))
    assert some.throughput[:, 0].tolist() == [2.0, 3.0]
    assert some.holdings.job.tolist() == [1, 1]
    assert some.holdings.server.tolist() == [0, 1]
    assert (some.age_s == view.age_s[1:]).all()
    down = replace(view, up=np.array([4, 0]))
    assert down.capacity.tolist() == [4]
