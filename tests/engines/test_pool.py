"""A crew of processes: order, errors, death, and Ctrl-C that foreign code swallows."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from eunomia.core import interrupts
from eunomia.core.errors import EunomiaError
from eunomia.engines.crew import Workers
from eunomia.engines.pool import Pool
from eunomia.engines.processes import Cell, Interrupted, map_cells
from tests.engines import work


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


def test_results_come_in_order_and_again(pool: Pool) -> None:
    for count in (0, 1, 7):
        assert pool.map(work.square, range(count)) == [{"square": n**2} for n in range(count)]


def test_the_first_error_is_raised_and_the_pool_goes_on(pool: Pool) -> None:
    with pytest.raises(EunomiaError, match="unknown rule 'edff'; did you mean 'edf'") as raised:
        pool.map(work.refuses, [0, 1, 2, 2])
    assert raised.value.exit_code == 2
    with pytest.raises(RuntimeError, match="ValueError"):
        pool.map(work.refuses, [1, 3])
    with pytest.raises(ZeroDivisionError) as divided:
        pool.map(work.divides, [1, 0])
    assert "work.py" in "".join(divided.value.__notes__)
    assert pool.map(work.refuses, [0, 1]) == [0, 1]


def test_a_worker_that_dies_is_told_and_nobody_waits_for_it() -> None:
    with Workers(2) as crew, pytest.raises(EunomiaError, match="ended by signal 9"):
        crew.map(work.dies_at_one, range(4))


def test_ctrl_c_that_foreign_code_swallows_ends_the_work() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    try:
        with interrupts.noted(), Workers() as crew, pytest.raises(KeyboardInterrupt):
            for _ in range(2):
                crew.map(work.swallows_ctrl_c, [0])
        with interrupts.noted(), pytest.raises(Interrupted, match="1 of 2"):
            map_cells([Cell(str(n), str(n), n) for n in range(2)], work.swallows_ctrl_c)
    finally:
        signal.signal(signal.SIGINT, before)
