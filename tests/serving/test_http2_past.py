"""Which frames of calls that are over are in order, whatever is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.http2.frames import Code, Fault
from eunomia.serving.http2.past import KEPT, Past


@given(
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), unique_by=lambda one: one[0], max_size=20),
    st.integers(1, 60),
)
def test_it_says_what_a_list_of_all_says(over: list[tuple[int, bool]], asked: int) -> None:
    past, found = Past(), None
    for number, may_come in over:
        past.add(number, may_come=may_come)
    try:
        past.must_allow(asked)
    except Fault as fault:
        found = fault.code
    known = dict(over)
    assert found == (
        Code.PROTOCOL_ERROR if asked not in known else None if known[asked] else Code.STREAM_CLOSED
    )
    assert past.ended(asked) == (found == Code.STREAM_CLOSED)


@given(st.permutations(range(1, 41, 2)))
def test_of_what_is_forgotten_everything_is_allowed(order: list[int]) -> None:
    past = Past()
    for number in order:
        past.add(number, may_come=False)
    for number in range(41, 41 + 2 * KEPT, 2):
        past.add(number, may_come=False)
    for number in range(1, 41, 2):
        past.must_allow(number)
        assert not past.ended(number)
    with pytest.raises(Fault, match="its client has ended"):
        past.must_allow(39 + 2 * KEPT)
