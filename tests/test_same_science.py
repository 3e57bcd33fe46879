"""The comparison of two checkouts sees every difference, and sees none where there is none."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from tests.same_science import clusters, scenarios
from tests.same_science.__main__ import ROOT, cluster_commands, random_commands
from tests.same_science.at_checkout import run
from tests.same_science.compare import Taken, differences
from tests.same_science.digest import Digests, of_folder, of_table, of_values
from tests.same_science.toml_text import toml

TABLE = pa.table({"a": [1.0, None, 3.0], "b": ["x", "y", "x"], "c": [[1, 2], [], None]})


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("a", pa.array([1.0, None, math.nextafter(3.0, 4.0)])),
        ("a", pa.array([1.0, 0.0, 3.0])),
        ("a", pa.array([1, None, 3])),
        ("b", pa.array(["x", "y", "y"])),
        ("c", pa.array([[1], [2], None])),
        ("c", pa.array([[1, 2], None, None])),
    ],
)
def test_a_changed_value_null_or_type_changes_the_digest_of_its_column(column: str, values: pa.Array) -> None:
    other = TABLE.set_column(TABLE.column_names.index(column), column, values)
    before, after = of_table(TABLE), of_table(other)
    assert [name for name in before if before[name] != after[name]] == [column]


def test_encoding_and_what_lies_beneath_a_null_do_not_count() -> None:
    beneath = pa.Array.from_buffers(
        pa.float64(), 3, [pa.py_buffer(b"\x05"), pa.array([1.0, 7.0, 3.0]).buffers()[1]]
    )
    other = TABLE.set_column(0, "a", beneath).set_column(1, "b", TABLE["b"].dictionary_encode())
    assert of_table(TABLE) == of_table(other)


def test_measured_times_are_left_out_of_metrics() -> None:
    assert of_values({"hit_rate": 0.5, "solve_p95_s": 0.1, "tenants": {"gold": [1, 2]}}) == {
        "hit_rate": "0.5",
        "tenants.gold.0": "1",
        "tenants.gold.1": "2",
    }


def test_differences_name_run_table_and_column() -> None:
    before: Digests = {"t.parquet": {"a": "1", "b": "2", "c": "3"}, "u.parquet": {"a": "1"}}
    after: Digests = {"t.parquet": {"a": "1", "b": "9", "d": "3"}, "w.parquet": {"z": "8"}}
    found = differences(_taken(x=before, y=before), _taken(x=after))
    assert found == [
        "x: t.parquet: column b has other values (2 -> 9)",
        "x: t.parquet: column c is called d, equal otherwise",
        "x: table u.parquet is gone",
        "x: table w.parquet is new",
        "y: no run after (it was not asked for)",
    ]
    assert differences(_taken(x=before), _taken(x=before)) == []


def _taken(**runs: Digests) -> Taken:
    return {"runs": runs, "failed": {}, "times_s": {}}


def test_scenarios_are_the_same_every_time_and_name_every_policy() -> None:
    cases = scenarios.cases()
    assert [toml(case.scenario) for case in cases] == [toml(case.scenario) for case in scenarios.cases()]
    named = {*scenarios.EVENTS_ONLY, *scenarios.PUBLISHED, *scenarios.SEARCHING}
    assert len(cases) == 200
    assert named <= {case.policy for case in cases}
    assert set(clusters.POLICIES) <= {case.policy for case in clusters.small(Path("gavel"))}


def test_two_runs_of_this_checkout_give_equal_tables(tmp_path: Path) -> None:
    found = []
    for turn in ("first", "second"):
        work = tmp_path / turn
        work.mkdir()
        requests = [each for each in random_commands(work, ROOT) if each.name == "random-004"]
        jobs = [each for each in cluster_commands(work, ROOT) if each.name == "policy-fifo_perf"]
        answers = run(ROOT, [*requests, *jobs], 1, None)
        assert [answer.status for answer in answers] == [0, 0], answers
        found.append(_taken(**{each.name: of_folder(Path(str(each.folder))) for each in [*requests, *jobs]}))
    assert len(found[0]["runs"]["random-004"]) >= 6
    assert differences(*found) == []
