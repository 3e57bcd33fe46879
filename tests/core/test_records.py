"""Runs are written whole or not at all, and equal tables give equal bytes."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eunomia.core import records
from eunomia.core.errors import OutputError, RecordError
from eunomia.core.provenance import environment
from eunomia.core.records import (
    conform,
    mark_incomplete,
    read_comparison,
    read_run,
    run_directories,
    write_comparison,
    write_run,
    write_text,
)  # fmt: skip
from eunomia.core.schemas import SCHEMA_VERSION, TABLES
from tests import children
from tests.report.synthetic import run


@pytest.fixture(scope="module")
def toy() -> records.RunRecords:
    return run(requests=30)


def test_what_is_written_is_read_back(tmp_path: Path, toy: records.RunRecords) -> None:
    write_run(tmp_path / "a", toy.tables, toy.manifest)
    back = read_run(tmp_path / "a")
    assert back.tables == toy.tables
    assert (back.policy, back.seed) == ("edf", 0)
    assert back.manifest["tables"]["requests"]["rows"] == 30
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


def test_only_the_tables_asked_for_are_read(tmp_path: Path, toy: records.RunRecords) -> None:
    write_run(tmp_path / "a", toy.tables, toy.manifest)
    some = read_run(tmp_path / "a", only=["pairs"])
    assert list(some.tables) == ["pairs"]
    with pytest.raises(RecordError, match="no table 'subjobs'"):
        some["subjobs"]


def test_equal_tables_give_equal_bytes_however_they_were_built(
    tmp_path: Path, toy: records.RunRecords
) -> None:
    halves = toy["requests"].slice(0, 11), toy["requests"].slice(11)
    plain = pa.concat_tables(halves)
    column = plain["tenant"].cast(pa.string())  # not dictionary-encoded, two chunks
    other = plain.set_column(plain.column_names.index("tenant"), "tenant", column)
    write_run(tmp_path / "a", toy.tables, toy.manifest)
    write_run(tmp_path / "b", {**toy.tables, "requests": other}, toy.manifest)
    for name in toy.tables:
        file = f"{name}.parquet"
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_an_existing_run_is_kept_unless_told(tmp_path: Path, toy: records.RunRecords) -> None:
    write_run(tmp_path / "a", toy.tables, {**toy.manifest, "seed": 1})
    with pytest.raises(OutputError, match="exists already"):
        write_run(tmp_path / "a", toy.tables, {**toy.manifest, "seed": 2})
    assert read_run(tmp_path / "a").seed == 1
    write_run(tmp_path / "a", toy.tables, {**toy.manifest, "seed": 2}, overwrite=True)
    assert read_run(tmp_path / "a").seed == 2
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_failed_overwrite_keeps_the_old_run(
    tmp_path: Path, toy: records.RunRecords, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    write_run(tmp_path / "a", toy.tables, {**toy.manifest, "seed": 1})
    if not exchange:
        monkeypatch.setattr("eunomia.core.atomic._exchange", lambda one, other: False)
        write_run(tmp_path / "a", toy.tables, {**toy.manifest, "seed": 2}, overwrite=True)
        assert read_run(tmp_path / "a").seed == 2

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OutputError, match="the disk is full; free some space"):
        write_run(tmp_path / "a", toy.tables, {**toy.manifest, "seed": 3}, overwrite=True)
    assert read_run(tmp_path / "a").seed == (1 if exchange else 2)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_really_full_device_is_one_sentence(toy: records.RunRecords) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OutputError, match="disk is full"), records.clear_output_errors(Path("x")):
        records.flush_text(Path("/dev/full"), "x" * 10)


def test_unwritable_places_are_one_sentence(tmp_path: Path, toy: records.RunRecords) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="a part of the path is a file"):
        write_run(tmp_path / "file" / "a", toy.tables, toy.manifest)
    with pytest.raises(OutputError, match="a part of the path is a file"):
        write_text(tmp_path / "file" / "report.html", "x")
    with pytest.raises(OutputError, match="name is too long"):
        write_run(tmp_path / ("n" * 300), toy.tables, toy.manifest)


def test_a_killed_writer_leaves_nothing_that_reads_as_a_run(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "import pyarrow.parquet as pq\n"
        "from eunomia.core.records import write_run\n"
        "from tests.report.synthetic import run\n"
        "toy, whole, count = run(requests=10), pq.write_table, []\n"
        "def write(*a, **k):\n"
        "    whole(*a, **k); count.append(1)\n"
        "    if len(count) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "pq.write_table = write\n"
        f"write_run({str(tmp_path / 'a')!r}, toy.tables, toy.manifest)\n"
    )
    done = children.run(children.python("-c", script))
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".a.partial") and (left / "INCOMPLETE").exists()
    with pytest.raises(RecordError, match="incomplete"):
        read_run(left)
    with pytest.raises(RecordError, match="there is no run"):
        read_run(tmp_path / "a")
    assert run_directories(tmp_path) == []
    toy = run(requests=10)
    write_run(tmp_path / "a", toy.tables, toy.manifest)  # the next writer clears the ruins away
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_ctrl_c_leaves_nothing(
    tmp_path: Path, toy: records.RunRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_run(tmp_path / "a", toy.tables, toy.manifest)
    assert list(tmp_path.iterdir()) == []


def test_damage_is_noticed(tmp_path: Path, toy: records.RunRecords) -> None:
    path = tmp_path / "a"
    write_run(path, toy.tables, toy.manifest)
    file = path / "subjobs.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    with pytest.raises(RecordError, match=r"damaged: subjobs\.parquet differs"):
        read_run(path)
    with pytest.raises(RecordError, match=r"damaged: subjobs\.parquet cannot be read"):
        read_run(path, verify=False)
    file.unlink()
    with pytest.raises(RecordError, match=r"subjobs\.parquet is missing"):
        read_run(path)
    (path / "manifest.json").write_text("{")
    with pytest.raises(RecordError, match=r"manifest\.json cannot be read"):
        read_run(path)


def test_another_version_is_named(tmp_path: Path, toy: records.RunRecords) -> None:
    write_run(tmp_path / "a", toy.tables, toy.manifest)
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    (tmp_path / "a" / "manifest.json").write_text(json.dumps({**manifest, "schema_version": 99}))
    with pytest.raises(RecordError, match="schema version 99, this Eunomia reads version 1"):
        read_run(tmp_path / "a")


def test_a_missing_run_suggests_its_neighbours(tmp_path: Path, toy: records.RunRecords) -> None:
    write_run(tmp_path / "demo", toy.tables, toy.manifest)
    with pytest.raises(RecordError, match="there is no run at .*demmo.*; try .*demo"):
        read_run(tmp_path / "demmo")


def test_nan_is_null_and_strangers_are_refused() -> None:
    table = conform("costs", pa.table({"model": ["m"], "layer": [0], "latency_s": [np.nan]}))
    assert table["latency_s"].null_count == 1 and table["energy_j"].null_count == 1
    with pytest.raises(RecordError, match="unknown column 'colour'"):
        conform("costs", pa.table({"colour": [1]}))
    with pytest.raises(RecordError, match="table 'costs', column 'layer'"):
        conform("costs", pa.table({"layer": ["first"]}))
    with pytest.raises(RecordError, match="unknown table 'tasks'"):
        conform("tasks", pa.table({"layer": [1]}))


def test_a_comparison_is_incomplete_until_it_is_finished(tmp_path: Path, toy: records.RunRecords) -> None:
    mark_incomplete(tmp_path)
    for policy, seed in (("fcfs", 0), ("edf", 10), ("edf", 2)):
        manifest = {**toy.manifest, "policy": policy, "seed": seed}
        write_run(tmp_path / policy / str(seed), toy.tables, manifest)
    with pytest.raises(RecordError, match="incomplete"):
        read_comparison(tmp_path)
    write_comparison(tmp_path, {"name": "two", "policies": ["fcfs", "edf"]}, {"report.html": "<p>"})
    both = read_comparison(tmp_path)
    assert both.name == "two" and both.policies == ["fcfs", "edf"] and both.seeds == [0, 2, 10]
    assert [r.seed for r in both.of("edf")] == [2, 10]
    assert (tmp_path / "report.html").read_text() == "<p>"
    with pytest.raises(RecordError, match="not a single run"):
        read_run(tmp_path)


def test_tables_of_a_comparison_are_read_and_checked_when_asked_for(
    tmp_path: Path, toy: records.RunRecords
) -> None:
    write_run(tmp_path / "edf" / "0", toy.tables, toy.manifest)
    write_comparison(tmp_path, {"name": "lazy"})
    (tmp_path / "edf" / "0" / "subjobs.parquet").write_bytes(b"not parquet")
    (only,) = read_comparison(tmp_path).runs
    assert only["requests"] == toy["requests"] and "subjobs" in only.tables
    with pytest.raises(RecordError, match=r"damaged: subjobs\.parquet differs"):
        only["subjobs"]


def test_a_single_run_reads_as_a_comparison_of_one(tmp_path: Path, toy: records.RunRecords) -> None:
    write_run(tmp_path / "a", toy.tables, toy.manifest)
    assert read_comparison(tmp_path / "a").policies == ["edf"]


def test_the_environment_names_versions_and_machine() -> None:
    facts = environment()
    assert facts["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["machine"]["cores"] == os.cpu_count() and "eunomia" in facts["versions"]


def test_every_table_and_column_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
    for name, schema in TABLES.items():
        section = text.split(f"\n### {name}\n", 1)[1].split("\n#", 1)[0]
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        told = {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}
        assert told == set(schema.names), name
    assert f"| `schema_version` | version of the tables described here: {SCHEMA_VERSION} |" in text


@pytest.mark.parametrize("make", [
    lambda place: (place / "notes.txt").write_text("precious"),
    lambda place: (place / "manifest.json").write_text('{"schema_version": 1, "tables": {}}'),
    lambda place: (place / "manifest.json").write_text("[]"),
    lambda place: (place / "INCOMPLETE").write_text("my list of open tasks"),
])  # fmt: skip
def test_a_directory_of_somebody_else_is_never_replaced(
    tmp_path: Path, toy: records.RunRecords, make: Callable[[Path], object]
) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    make(place)
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    for write in (
        lambda: write_run(place, toy.tables, toy.manifest, overwrite=True),
        lambda: mark_incomplete(place),
    ):
        with pytest.raises(OutputError, match="was not written by Eunomia"):
            write()
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before


def test_a_file_is_not_replaced_by_a_run(tmp_path: Path, toy: records.RunRecords) -> None:
    (tmp_path / "a").write_text("precious")
    with pytest.raises(OutputError, match="was not written by Eunomia"):
        write_run(tmp_path / "a", toy.tables, toy.manifest, overwrite=True)
    assert (tmp_path / "a").read_text() == "precious"


def test_foreign_files_stay_when_a_run_is_replaced(tmp_path: Path, toy: records.RunRecords) -> None:
    place = tmp_path / "a"
    write_run(place, toy.tables, {**toy.manifest, "seed": 1})
    (place / "notes.txt").write_text("precious")
    (place / "figures").mkdir()
    (place / "figures" / "requests.parquet").write_text("my own")
    (place / "report.html").write_text("of the old run")
    some = {name: toy[name] for name in ("requests", "pairs")}
    write_run(place, some, {**toy.manifest, "seed": 2}, overwrite=True)
    assert read_run(place).seed == 2 and sorted(read_run(place).tables) == ["pairs", "requests"]
    names = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    assert names == [
        "figures/requests.parquet",
        "manifest.json",
        "notes.txt",
        "pairs.parquet",
        "requests.parquet",
    ]
    assert (place / "notes.txt").read_text() == "precious"
    assert (place / "figures" / "requests.parquet").read_text() == "my own"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_run_over_a_comparison_takes_its_runs_away_and_nothing_else(
    tmp_path: Path, toy: records.RunRecords
) -> None:
    place = tmp_path / "all"
    mark_incomplete(place)
    for policy in ("edf", "fcfs"):
        write_run(place / policy / "0", toy.tables, toy.manifest)
    write_comparison(place, {"name": "all"})
    (place / "edf" / "0" / "notes.txt").write_text("precious")
    write_run(place, toy.tables, toy.manifest, overwrite=True)
    assert read_run(place).seed == 0
    kept = [path for path in place.rglob("*") if path.parent != place]
    assert sorted(str(path.relative_to(place)) for path in kept) == ["edf/0", "edf/0/notes.txt"]


def test_a_comparison_is_not_written_over_a_single_run(tmp_path: Path, toy: records.RunRecords) -> None:
    write_run(tmp_path / "a", toy.tables, toy.manifest)
    with pytest.raises(OutputError, match="holds a single run"):
        mark_incomplete(tmp_path / "a")
    assert read_run(tmp_path / "a").seed == 0


def test_an_unfinished_comparison_may_go_on(tmp_path: Path) -> None:
    mark_incomplete(tmp_path / "a")
    mark_incomplete(tmp_path / "a")
    write_comparison(tmp_path / "a", {"name": "a"})
    mark_incomplete(tmp_path / "a")


@pytest.mark.parametrize("text", ["[]", "3", f'{{"schema_version": {SCHEMA_VERSION}}}'])
def test_a_strange_manifest_is_one_sentence(tmp_path: Path, toy: records.RunRecords, text: str) -> None:
    write_run(tmp_path / "a", toy.tables, toy.manifest)
    (tmp_path / "a" / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match="is damaged: manifest.json"):
        read_comparison(tmp_path / "a")
