"""Memory that compiled code reaches by address: what is linked is what is read, and what is beyond is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import eunomia
from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import (
    array_of,
    block_of,
    block_record,
    copy_fields,
    copy_items,
    give_blocks,
    in_use,
    item_at,
    lent,
    link,
    record_of,
    share,
    table_fields,
)

POINT = np.dtype([("x", "f8"), ("name", "i8")])
TABLE = np.dtype([*table_fields(["points", "numbers"]), ("size", "i8"), ("sum", "f8")])

point_at, only_point = item_at(TABLE, "points", POINT), record_of(TABLE, "points", POINT)
points_of, as_numbers = array_of(TABLE, "points", POINT), array_of(TABLE, "points", POINT, np.float64, 2)
copy_points, copy_totals = copy_items(TABLE, "points", POINT), copy_fields(TABLE, "size")
first_block, second_block = block_of(SYSTEM, 0, np.float64), block_of(SYSTEM, 1, np.int64)
point_block = block_record(SYSTEM, 1, POINT)


def table(count: int) -> tuple[Any, Any]:
    """A table of ``count`` points, x = 0, 1, ...; and the points."""
    points, made = np.zeros(count, POINT), np.zeros(1, TABLE)
    points["x"] = np.arange(count)
    link(made, {"points": points, "numbers": np.zeros(3)})
    return made, points


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return numba.njit(error_model="numpy")(function)  # type: ignore[no-any-return]


def test_items_are_read_and_written_where_the_array_stands() -> None:
    @compiled
    def move(tables: Any, i: int) -> float:
        k = tables[0]
        point_at(k, i).x += 10.0
        only_point(k).name = 7
        return point_at(k, i).x  # type: ignore[no-any-return]

    made, points = table(4)
    assert move(made, 3) == 13.0
    assert points["x"].tolist() == [0.0, 1.0, 2.0, 13.0] and points["name"][0] == 7


def test_arrays_are_the_memory_itself_and_no_more_of_it() -> None:
    @compiled
    def raise_all(tables: Any, count: int) -> None:
        points_of(tables[0], count)["x"][:] += 1.0

    @compiled
    def total(tables: Any, rows: int, columns: int) -> float:
        return as_numbers(tables[0], rows, columns)[:, 0].sum()  # type: ignore[no-any-return]

    made, points = table(4)
    raise_all(made, 2)
    assert points["x"].tolist() == [1.0, 2.0, 2.0, 3.0]
    assert total(made, 4, 2) == 8.0
    for count in (5, -1, 1 << 60):
        with pytest.raises(IndexError, match="more items than 'points' has"):
            raise_all(made, count)
    with pytest.raises(IndexError, match="more items than 'points' has"):
        total(made, 5, 2)


def test_copies_stay_within_both_arrays() -> None:
    @compiled
    def copy(source: Any, first: int, target: Any, to: int, count: int) -> None:
        copy_points(source[0], first, target[0], to, count)

    source, _ = table(4)
    target, points = table(6)
    copy(source, 1, target, 3, 3)
    copy(source, 4, target, 6, 0)
    assert points["x"].tolist() == [0.0, 1.0, 2.0, 1.0, 2.0, 3.0]
    for first, to, count in (
        (2, 0, 3),
        (0, 4, 3),
        (-1, 0, 1),
        (0, -1, 1),
        (0, 0, -1),
        (5, 0, 0),
        (1, 1, 1 << 62),
    ):
        with pytest.raises(IndexError, match="a copy beyond the items of 'points'"):
            copy(source, first, target, to, count)


def test_fields_are_copied_and_places_are_not() -> None:
    @compiled
    def copy(source: Any, target: Any) -> None:
        copy_totals(source[0], target[0])

    (source, _), (target, points) = table(4), table(6)
    source["size"], source["sum"] = 9, 1.5
    copy(source, target)
    assert (target["size"][0], target["sum"][0]) == (9, 1.5)
    assert target["points_items"][0] == 6 and target["points_at"][0] == points.ctypes.data


def test_shared_arrays_are_one() -> None:
    (one, points), (two, _) = table(4), table(6)
    share(two, one, ["points"])
    assert (two["points_at"][0], two["points_items"][0]) == (points.ctypes.data, 4)


def test_blocks_reach_compiled_code_through_the_view() -> None:
    @compiled
    def both(systems: Any) -> float:
        return first_block(systems[0]).sum() + 100.0 * second_block(systems[0]).sum()  # type: ignore[no-any-return]

    @compiled
    def x_of(systems: Any) -> float:
        return point_block(systems[0]).x  # type: ignore[no-any-return]

    system = np.zeros(1, SYSTEM)
    with pytest.raises(IndexError, match="the View carries no block 0"):
        both(system)
    numbers, wholes = np.arange(3.0), np.arange(4)
    give_blocks(system, [numbers])
    with pytest.raises(IndexError, match="the View carries no block 1"):
        both(system)
    give_blocks(system[0], [wholes], 1)
    assert both(system) == 603.0
    with pytest.raises(IndexError, match="block 1 of the View is of another kind"):
        x_of(system)
    give_blocks(system, [np.array([(2.5, 1)], POINT)], 1)
    assert x_of(system) == 2.5


def test_what_is_lent_is_the_memory_itself_and_nothing_is_lost() -> None:
    @numba.njit  # type: ignore[untyped-decorator]
    def filled(rows: int) -> tuple[float, int, int]:
        own = np.zeros((rows, 3))
        column, row = lent(own[:, 1]), lent(own[2])
        for i in range(len(column)):
            column[i] += i + 1.0
        row[0] = 10.0
        total = own.sum()
        in_use(own)
        return total, len(column), len(row)

    assert filled(4) == (20.0, 4, 3)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    assert [filled(n)[1] for n in range(3, 60)] == [*range(3, 60)]
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0


def test_what_cannot_be_linked_is_refused() -> None:
    made, _ = table(4)
    with pytest.raises(ValueError, match="'points' is not one piece of memory"):
        link(made, {"points": np.zeros(8, POINT)[::2]})
    with pytest.raises(ValueError, match="'block 2' is not one piece"):
        give_blocks(np.zeros(1, SYSTEM), [np.zeros((2, 2)).T], 2)
    with pytest.raises(ValueError, match="9 blocks; a SYSTEM record holds 8"):
        give_blocks(np.zeros(1, SYSTEM), [np.zeros(1)] * 2, 7)
    with pytest.raises(ValueError, match="block 8; a SYSTEM record has blocks 0 to 7"):
        block_of(SYSTEM, 8, np.float64)


def test_no_other_module_reaches_memory_by_address() -> None:
    raw = re.compile(
        r"\.ctypes\.data|__array_interface__|\bcarray\b|\bfarray\b|inttoptr|ptrtoint|voidptr|raw_mem"
    )
    package = Path(eunomia.__file__).parent
    found = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if raw.search(path.read_text())
    }
    assert found == {"core/addresses.py"}
