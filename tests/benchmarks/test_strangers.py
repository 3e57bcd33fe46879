"""Inputs made up for networks that none of us made, and what counts as the same answer."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.serving.made_up import FEW, LONG, SIDES, STYLES, made_up
from benchmarks.serving.strangers import REQUESTS, brief, plain, row, same
from tests.hostile.networks import HEAD


def port(name: str, kind: str, *shape: int | str | None) -> SimpleNamespace:
    """An input."""
    return SimpleNamespace(name=name, type=f"tensor({kind})", shape=list(shape))


def test_sizes_follow_the_names_of_axes_and_values_the_datatypes() -> None:
    ports = [
        port("ids", "int64", "batch_size", "sequence"),
        port("mask", "int64", "batch_size", "sequence"),
        port("picture", "float16", "N", 3, "height", "w"),
        port("nameless", "float", None, 1, "?"),
        port("text", "string", "some"),
        port("go", "bool"),
    ]
    for seed in range(4):
        ids, mask, picture, nameless, text, go = made_up(ports, random.Random(seed), STYLES[0], []).values()
        assert ids.shape == mask.shape and ids.shape[0] in range(1, 5) and ids.shape[1] in LONG
        assert ids.dtype == np.int64 and ids.max() < 30 and set(mask.flat) <= {0, 1}
        assert picture.dtype == np.float16 and {*picture.shape[2:]} <= set(SIDES)
        assert nameless.shape[0] in range(1, 5) and nameless.shape[2] in {*FEW, *ids.shape, *picture.shape}
        assert text.dtype == object and all(isinstance(one, str) for one in text) and text.shape[0] in FEW
        assert go.shape == () and go.dtype == bool


def test_what_is_no_tensor_is_said() -> None:
    sequence = SimpleNamespace(name="x", type="seq(tensor(float))", shape=[])
    with pytest.raises(TypeError):
        made_up([sequence], random.Random(0), STYLES[0], [])


def test_what_onnx_runtime_refuses_is_drawn_anew(tmp_path: Path) -> None:
    """A table with two rows, where usual numbers are refused, and an input whose two sizes must be alike."""
    from onnx import parser

    body = "<float[2] of = {1, 2}> { z = Gather (of, x) r = Add (a, b) }"
    text = f"(int64[n] x, float[k] a, float[m] b) => (float[n] z, float[o] r) {body}"
    path = tmp_path / "table.onnx"
    path.write_bytes(parser.parse_model(HEAD + text).SerializeToString())
    found, took_ms, lot = plain(path)
    assert took_ms > 0.0 and not lot and 0 < len(found) <= REQUESTS
    for feed, answers in found:
        assert np.array_equal(answers["z"], feed["x"] + 1.0)
        assert np.array_equal(answers["r"], feed["a"] + feed["b"])


def test_an_answer_is_the_same_within_the_tolerance_of_its_datatype() -> None:
    whole, halves = np.array([1.0, np.nan], np.float32), np.array([1.0], np.float16)
    assert same(whole + np.float32(1e-5), whole) and not same(whole + np.float32(1e-3), whole)
    assert same(halves + np.float16(1e-3), halves)
    assert not same(None, whole) and not same(whole[:1], whole)
    assert same(np.array([b"W\xc3\xb6rter"], object), np.array(["Wörter"], object))
    assert same(np.array([1, 2]), np.array([1, 2])) and not same(np.array([1, 3]), np.array([1, 2]))


def test_reasons_are_short_and_counted() -> None:
    said = "413 an input of this size may hold a device for 31 ms without a pause; tenant 'bronze' may 25 ms"
    assert brief(said) == "413 an input of this size may hold a device for # ms without a pause"
    one = {"asked": 3, "answers_s": [0.5], "wrong": 0, "instead": [("429 busy", {})] * 2, "plain_ms": 1.0}
    cells = row("net", Path(__file__), {**one, "gold": [[200, 0.01], [200, 0.06]]})
    assert cells[2:] == [1.0, "1 of 3", 0, "429 busy x 2", 0.5, 0.5, 60.0]
    assert row("net", Path(__file__), {**one, "gold": [], "problem": "none"})[5:] == ["none", 0.5, None, None]
