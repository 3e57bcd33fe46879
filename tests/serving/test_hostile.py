"""Gold is served while bronze attacks: every attack of the table, several at a time, on one live server.

Where gold suffers, the attacks of the group run again one by one: a fault of the server comes again, a hiccup of the
machine does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import ATTACKS
from tests.hostile.field import Field, Seen, opened
from tests.patience import until
from tests.serving.live import ADMIN

SHORT_S, AGAIN_S = 0.4, 1.0
TOGETHER = 6
SLOW = 10.0  # times gold's slowest answer on a quiet server; what may be late on a busy machine
HIT_S, MOST_S, DEADLINE_S = 0.75, 5.0, 0.2
TRIES = 3
SERVED = 0.9  # of gold's requests: some twenty in the short time
ENDLESS = ["endless", "endless-node", "long-node"]  # one device is away until they are ended
SHORT = [name for name in ATTACKS if name not in ENDLESS]
GROUPS = [SHORT[n : n + TOGETHER] for n in range(0, len(SHORT), TOGETHER)]


@pytest.fixture(scope="module")
def field() -> Iterator[Field]:
    with opened(HIT_S, DEADLINE_S) as found:
        found.quiet(SHORT_S)  # what is slow once
        calibrate(found)
        yield found


def calibrate(field: Field) -> None:
    """What may be late on this machine, as busy as it is now; never more than MOST_S."""
    field.hit_s = min(max(HIT_S, SLOW * field.quiet(SHORT_S).worst_s), MOST_S)


def stands(seen: Seen) -> bool:
    return seen.share >= SERVED and seen.recovery_s < float("inf")


def suffers_again(field: Field, name: str) -> bool:
    """Whether gold suffers from this attack alone, too, by the measure of a quiet moment after it."""
    for _ in range(TRIES):
        if stands(field.attacked([name], AGAIN_S)):
            return False
        calibrate(field)
    return True


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_gold_is_served_while_bronze_attacks(field: Field, names: list[str]) -> None:
    seen = field.attacked(names, SHORT_S)
    if not stands(seen):
        assert not [name for name in names if suffers_again(field, name)], seen
    fine(field, names, seen)


def test_a_device_that_hangs_in_a_node_is_replaced_by_the_process_that_stood_by(field: Field) -> None:
    """Before any other test of such runs: after one, bronze must pause with such inputs."""

    def device() -> Any:
        return field.server.ask("/v2/eunomia/state", key=ADMIN)[1]["devices"][0]

    until(lambda: device()["stands_by"])
    pid = field.server.process.pid
    before = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    hung = device()["pid"]
    field.attacked(["long-node"], SHORT_S)
    until(lambda: device()["alive"] and device()["pid"] != hung)
    assert str(device()["pid"]) in before


def test_gold_is_served_again_after_runs_that_do_not_end(field: Field) -> None:
    seen = field.attacked(ENDLESS, SHORT_S)
    assert seen.recovery_s < float("inf")
    fine(field, ENDLESS, seen)


def fine(field: Field, names: list[str], seen: Seen) -> None:
    """Bronze was told one sentence each time, and the server says how it stands."""
    for name, told in zip(names, seen.told, strict=True):
        assert "500" not in told["told"] or name in MAY_FAIL, (name, told)
        for status, sentence in told["words"].items():
            assert one_sentence(sentence), (name, status, sentence)
    assert field.server.ask("/v2/eunomia/state", key=ADMIN)[0] == 200


MAY_FAIL = {"failing", "endless-node", "long-node"}  # a network that fails on an input is answered with 500


def one_sentence(text: str) -> bool:
    """Short, on one line, without a folder of the server's or the name of a Python error."""
    return 0 < len(text) <= 600 and "\n" not in text and not re.search(r"Traceback|/work|/tmp/|\.py\b", text)


def test_there_are_enough_of_them() -> None:
    assert len(ATTACKS) >= 40 and len({attack.what for attack in ATTACKS.values()}) == len(ATTACKS)
