"""Elements of string tensors: found, checked and taken apart as the plain loop does it, in far fewer steps."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.devices import walking
from eunomia.serving.devices.strings import Elements, Strings, packed, walked
from eunomia.serving.devices.walking import walk_compiled
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.json_work import put_numbers_in
from eunomia.serving.protocol.nesting import UNLIKE, check_nesting
from eunomia.serving.protocol.strings import MAX_STRINGS, MAX_TEXT_BYTES, json_strings, raw_strings
from tests import children
from tests.serving.live import running
from tests.serving.made_up import examples
from tests.serving.steps import steps

LETTERS = ["a" for _ in range(MAX_STRINGS)]
BYTES = st.sampled_from([0, 1, 2, 3, 4, 5, 97, 128, 191, 194, 0xED, 0xA0, 0xE4, 0xF4, 0x8F, 0xBF, 255])
TEXTS = st.text(st.sampled_from("ab\0\x80ü三𝄞\U0010ffff"), max_size=70) | st.just("\x80\0\0")


@pytest.fixture(params=["plain", "compiled"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the process finds elements."""
    monkeypatch.setattr(Elements, "walk", staticmethod(walked))
    if request.param == "compiled":
        walk_compiled()


# --- the obvious code ------------------------------------------------------------------------------------


def plain_elements(raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise ValueError(f"{len(raw) - at} bytes follow the last element, a length has 4")
        (size,) = struct.unpack_from("<I", raw, at)
        at += 4
        if at + size > len(raw):
            raise ValueError(f"an element has {size} bytes by its length, {len(raw) - at} are left")
        yield raw[at : at + size]
        at += size


def plain_packed(elements: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(one)) + one for one in elements)


def plain_raw_strings(count: int, raw: bytes) -> str:
    """What is wrong with them."""
    if count > MAX_STRINGS or len(raw) > MAX_TEXT_BYTES:
        return (
            f"tensor 't': {count} strings in {len(raw)} bytes; at most {MAX_STRINGS} in {MAX_TEXT_BYTES} are taken: "
            "send fewer rows"
        )
    try:
        found = sum(1 for _ in islice(map(bytes.decode, plain_elements(raw)), count + 1))
    except UnicodeDecodeError as error:
        return f"tensor 't': an element is no UTF-8 text: {error.reason}"
    except ValueError as error:
        return f"tensor 't': {error}"
    more = " or more" if found > count else ""
    return "" if found == count else f"tensor 't': {found} strings{more} given, {[count]} needs {count}"


def plain_json_strings(data: object) -> tuple[list[bytes], tuple[int, ...]] | str:
    """Their bytes and how they are nested, or what is wrong with them."""
    given, found = np.array(data, object), list[bytes]()  # what differs in length stays a list
    for one in given.ravel().tolist():
        if isinstance(one, list):
            return f"tensor 't': {UNLIKE}"
        if not isinstance(one, str):
            return f"tensor 't': BYTES holds {one!r:.50}; a text is expected"
        try:
            found.append(one.encode())
        except UnicodeEncodeError as error:
            return f"tensor 't': {one!r:.50} is no UTF-8 text: {error.reason}"
    return found, given.shape


def outcome(work: Callable[[], Any]) -> Any:
    """What it gives, or says."""
    try:
        return work()
    except BadRequest as error:
        return str(error)
    except ValueError as error:
        return type(error), str(error)


# --- the same ---------------------------------------------------------------------------------------------


@st.composite
def contents(draw: st.DrawFn) -> tuple[int, bytes]:
    """A count and bytes: elements that are no texts, lengths that lie, a piece that is cut off."""
    elements = draw(st.lists(TEXTS.map(str.encode) | st.lists(BYTES, max_size=6).map(bytes), max_size=12))
    raw = bytearray(plain_packed(elements) + bytes(draw(st.lists(BYTES, max_size=5))))
    for at in draw(st.lists(st.integers(0, max(len(raw) - 1, 0)), max_size=2)):
        raw[at : at + 1] = [draw(BYTES)] * bool(raw)
    return max(len(elements) + draw(st.sampled_from([0, 0, 0, 1, -1, -2])), 0), bytes(raw)


@pytest.mark.usefixtures("walk")
@examples(3.0)
@given(contents())
def test_raw_strings_are_taken_and_refused_as_by_the_plain_loop(case: tuple[int, bytes]) -> None:
    count, raw = case
    wrong = plain_raw_strings(count, raw)
    for one in (raw, memoryview(raw), memoryview(bytearray(raw))):
        found = outcome(lambda: raw_strings("t", (count,), one))  # noqa: B023
        assert found == (wrong or Strings((count,), raw))
    texts = [element.decode() for element in plain_elements(raw)] if not wrong else []
    if not wrong:
        strings = Strings((count,), raw)
        assert strings.texts() == texts and strings.numpy().tolist() == texts


@pytest.mark.usefixtures("walk")
@examples(2.0)
@given(st.lists(TEXTS, max_size=12), st.data())
def test_texts_are_packed_and_taken_apart_as_by_the_plain_loop(texts: list[str], data: st.DataObject) -> None:
    elements = [one.encode() for one in texts]
    raw = packed(elements)
    assert raw == plain_packed(elements)
    rows = data.draw(st.sampled_from([n for n in range(1, 13) if len(texts) % n == 0]))
    array = np.array([*texts, None], object)[:-1].reshape(rows, -1)
    strings = Strings.of(array)
    assert (strings.shape, strings.raw) == (array.shape, raw)
    assert strings.numpy().tolist() == array.tolist()
    begin, end = (data.draw(st.integers(0, rows)) for _ in range(2))
    some = strings[begin:end].copy()
    assert some == Strings.of(array[begin:end]) and some.numpy().tolist() == array[begin:end].tolist()


@pytest.mark.usefixtures("walk")
@examples(2.0)
@given(
    st.recursive(TEXTS | st.sampled_from([1, None, "\ud800"]), lambda inner: st.lists(inner, max_size=4)),
    st.integers(-2, 1),
)
def test_json_lists_of_texts_are_read_as_by_the_plain_loop(data: Any, more: int) -> None:
    plain = plain_json_strings(data)
    count = 3 if isinstance(plain, str) else max(len(plain[0]) + more, 0)

    def wanted() -> Any:
        if isinstance(plain, str):
            return plain
        elements, nested = plain
        if wrong := plain_raw_strings(count, raw := plain_packed(elements)):
            return wrong
        check_nesting("t", nested, (count,))
        return Strings((count,), raw)

    assert outcome(lambda: json_strings("t", (count,), data)) == outcome(wanted)


@pytest.mark.usefixtures("walk")
def test_as_many_and_as_large_as_are_taken() -> None:
    largest = packed([b"a" * (MAX_TEXT_BYTES - 4)])
    for count, raw in (
        (0, b""), (MAX_STRINGS, packed([b""] * MAX_STRINGS)), (MAX_STRINGS, packed([b"a"] * MAX_STRINGS)),
        (MAX_STRINGS + 1, packed([b""] * (MAX_STRINGS + 1))), (1, largest), (1, largest + b"\0"),
        (MAX_STRINGS, packed([b"a" * 252] * MAX_STRINGS)), (MAX_STRINGS, packed([b"\xc3", *[b"\xa4"] * 4095])),
    ):  # fmt: skip
        wrong = plain_raw_strings(count, raw)
        assert outcome(lambda: raw_strings("t", (count,), raw)) == (wrong or Strings((count,), raw))  # noqa: B023
        if not wrong:
            assert Strings((count,), raw).texts() == [one.decode() for one in plain_elements(raw)]
    with pytest.raises(UnicodeDecodeError, match="unexpected end of data"):
        Strings((2,), packed([b"\xc3", b"\xa4"])).texts()
    with pytest.raises(ValueError, match="5 bytes by its length, 1 are left"):
        Strings((1,), b"\5\0\0\0a").texts()


def test_only_the_wrong_letter_is_read_again() -> None:
    """A text of 1 MB with a wrong end was decoded twice."""
    with pytest.raises(UnicodeDecodeError, match="invalid start byte") as caught:
        Elements.of(packed([b"a", b"a" * MAX_TEXT_BYTES + b"\xff", b"a"]), 4).check()
    assert len(caught.value.object) <= 4


# --- in fewer steps ---------------------------------------------------------------------------------------


def test_no_step_of_python_for_each_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,096 texts of one letter held the event loop for more than a millisecond, each time somebody looked."""
    monkeypatch.setattr(Elements, "walk", Elements.walk)
    walk_compiled()
    raw, shape = packed([b"a"] * MAX_STRINGS), (MAX_STRINGS,)
    nested: Any = [[one] for one in LETTERS]
    for work in (
        lambda: raw_strings("t", shape, raw),
        lambda: outcome(lambda: raw_strings("t", shape, raw[:-1] + b"\xff")),
        lambda: Strings(shape, raw).texts(),
        lambda: Strings(shape, raw)[1:4000],
        lambda: json_strings("t", shape, LETTERS),
        lambda: json_strings("t", shape, nested),
        lambda: put_numbers_in({"outputs": [{}]}, [Strings(shape, raw)]),
    ):
        assert steps(work) < MAX_STRINGS // 8


def test_a_server_has_its_machine_code_before_it_serves_and_compiles_none_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Elements, "walk", staticmethod(walked))
    with running(tmp_path):
        assert Elements.walk is not walked
        with pytest.raises(TypeError, match="No matching definition"):
            walking._steps(np.zeros(8, np.int16), np.zeros(8, np.int64))  # type: ignore[arg-type]


def test_processes_beside_the_server_do_without_numba() -> None:
    """It would cost each of them its memory."""
    code = (
        "import sys, eunomia.serving.protocol.json_work, eunomia.serving.devices.worker\n"
        "sys.exit('numba' in sys.modules)"
    )
    assert children.run(children.python("-c", code)).returncode == 0
