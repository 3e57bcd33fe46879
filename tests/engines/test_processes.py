"""Cells on one or several processes: same answers, nothing lost."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from eunomia.core.errors import ConfigError, OutputError
from eunomia.engines.processes import Cell, Interrupted, map_cells
from eunomia.engines.store import CellStore, content_key
from tests import children
from tests.engines import work
from tests.patience import PATIENCE_S, until


def cells(count: int) -> list[Cell]:
    return [Cell(f"key{index}", f"cell {index}", index) for index in range(count)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order_for_any_number_of_workers(workers: int) -> None:
    outcomes = map_cells(cells(5), work.square, workers)
    assert [o.result for o in outcomes] == [{"square": index**2} for index in range(5)]
    assert [o.cell.name for o in outcomes] == [f"cell {index}" for index in range(5)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_cell_is_named_and_the_others_go_on(workers: int) -> None:
    outcomes = map_cells(cells(4), work.fails_at_two, workers)
    assert [o.failure for o in outcomes] == [None, None, "two is refused", None]
    assert outcomes[3].result == {"value": 3}


def test_an_unexpected_error_is_named_too() -> None:
    (outcome,) = map_cells(cells(1), work.divides_by_zero)
    assert outcome.failure is not None and outcome.failure.startswith("ZeroDivisionError")


def test_a_killed_worker_costs_its_own_cell_alone() -> None:
    outcomes = map_cells(cells(4), work.dies_at_one, 2)
    assert [o.result for o in outcomes] == [{"value": 0}, None, {"value": 2}, {"value": 3}]
    assert outcomes[1].failure is not None and "signal 9" in outcomes[1].failure


def test_finished_cells_are_found_again(tmp_path: Path) -> None:
    first = map_cells(cells(3), work.fails_at_two, store=tmp_path)
    second = map_cells(cells(3), work.square, store=tmp_path)
    assert [o.reused for o in second] == [True, True, False]
    assert second[1].result == first[1].result == {"value": 1}
    assert second[2].result == {"square": 4}


def test_a_torn_file_counts_as_absent(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    store.write("key0", "cell 0", {"value": 7})
    assert store.read("key0") == {"value": 7}
    (tmp_path / "key0.json").write_text('{"key": "key0", "res')
    assert store.read("key0") is None


def test_results_read_back_equal_results_just_computed(tmp_path: Path) -> None:
    (fresh,) = map_cells(cells(1), work.thirds, store=tmp_path)
    (again,) = map_cells(cells(1), work.thirds, store=tmp_path)
    assert fresh.result == again.result and again.reused


def test_an_unwritable_store_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OutputError, match="cannot write"):
        map_cells(cells(2), work.square, store=tmp_path / "taken")


def test_keys_depend_on_content_alone() -> None:
    assert content_key({"a": 1, "b": 2.0}) == content_key({"b": 2.0, "a": 1})
    assert content_key({"a": 1}) != content_key({"a": 2})


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    def stop(outcome: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="1 of 4 cells.*again to go on") as caught:
        map_cells(cells(4), work.square, on_done=stop, store=tmp_path)
    assert caught.value.exit_code == 130
    assert [o.reused for o in map_cells(cells(4), work.square, store=tmp_path)] == [True, False, False, False]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_process_leaves_whole_cells_and_can_be_resumed(tmp_path: Path, sent: int) -> None:
    command = children.python("-m", "tests.engines.work", tmp_path)
    with children.started(command, stderr=subprocess.PIPE) as process:
        until(lambda: len(list(tmp_path.glob("key*.json"))) == 4, process)
        if sent == signal.SIGINT:
            children.interrupt(process)
        else:
            process.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (130 if sent == signal.SIGINT else -signal.SIGKILL)
    assert "Traceback" not in errors
    outcomes = map_cells(cells(40), work.square, store=tmp_path)
    assert [o.cell.payload for o in outcomes if o.reused] == [0, 1, 2, 3]
    assert all(o.result == {"square": o.cell.payload**2} for o in outcomes)


def test_errors_of_the_callback_are_not_swallowed() -> None:
    def refuse(outcome: object) -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        map_cells(cells(2), work.square, on_done=refuse)
