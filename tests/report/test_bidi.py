"""Names cannot turn sentences, hide in them, or break where they should not."""

from __future__ import annotations

from dataclasses import replace

from eunomia.core.records import Comparison
from eunomia.report.bidi import Names, breakable, visible
from eunomia.report.html import render_report
from tests.report.synthetic import run


def test_controls_of_direction_are_written_out() -> None:
    assert visible("chat\u202e\u2066x\x00") == "chat[U+202E][U+2066]x[U+0000]"
    assert visible("modèle 模型 עברית\n") == "modèle 模型 עברית\n"


def test_names_break_after_their_joints_alone() -> None:
    assert breakable("edf+f+g0.9") == "<bdi>edf+<wbr>f+<wbr>g0.9</bdi>"
    assert breakable("<b>+") == "<bdi>&lt;b&gt;+</bdi>"


def test_names_from_right_to_left_are_kept_apart() -> None:
    told = Names(["gold", "עברית"]).text("The worst of gold is עברית: 93 % < 95 %.")
    assert told == "The worst of gold is <bdi>עברית</bdi>: 93 % &lt; 95 %."


def test_no_control_of_direction_reaches_the_page() -> None:
    toy = run(requests=30)
    turned = replace(toy, manifest={**toy.manifest, "policy": "edf\u202e", "config": {"name": "x\u2067y"}})
    page = render_report(Comparison("na\u202eme", (turned,)))
    assert not any(letter in page for letter in "\u202e\u2066\u2067\u2068\u2069")
    assert "na[U+202E]me" in page and "edf[U+202E]" in page and "x[U+2067]y" in page
