"""Gold is served over TLS while bronze attacks by records and handshakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile import TLS
from tests.hostile.field import Field, opened
from tests.serving.test_hostile import (
    DEADLINE_S,
    HIT_S,
    SHORT_S,
    TOGETHER,
    calibrate,
    fine,
    stands,
    suffers_again,
)

GROUPS = [[*TLS][n : n + TOGETHER] for n in range(0, len(TLS), TOGETHER)]


@pytest.fixture(scope="module")
def field() -> Iterator[Field]:
    with opened(HIT_S, DEADLINE_S, secure=True) as found:
        found.quiet(SHORT_S)
        calibrate(found)
        yield found


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_gold_is_served_while_bronze_attacks(field: Field, names: list[str]) -> None:
    seen = field.attacked(names, SHORT_S)
    if not stands(seen):
        assert not [name for name in names if suffers_again(field, name)], seen
    fine(field, names, seen)
