"""The Pareto chart: which points lie on the front, and a file that a browser can read."""

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from eunomia.report.study.front import Axis, Point, front, front_chart


def test_front_by_hand() -> None:
    xy = [(1.0, 5.0), (2.0, 4.0), (2.0, 3.0), (3.0, 1.0), (0.5, 4.9)]
    assert front(xy, more=True) == [0, 1, 3]
    assert front(xy, more=False) == [3]
    assert front([(1.0, 1.0), (1.0, 1.0)], more=True) == [0, 1]  # equals do not beat each other


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12), st.booleans())
def test_whoever_is_not_on_the_front_is_beaten_by_one_who_is(xy: list[tuple[int, int]], more: bool) -> None:
    sign = 1 if more else -1
    kept = front([(float(x), float(y)) for x, y in xy], more)
    assert kept
    for i, (x, y) in enumerate(xy):
        beaten = any(xy[k][0] >= x and sign * xy[k][1] >= sign * y and xy[k] != (x, y) for k in kept)
        assert beaten != (i in kept)


def test_chart_is_xml_with_every_point_in_every_panel_and_labels_apart() -> None:
    points = [
        Point("a < b", "rules"),
        Point("near", "rules"),
        Point("weak", "terms", "t"),
        Point("strong", "terms", "t"),
    ]
    measures = {
        "a < b": (80.0, 70.0, 3.0),
        "near": (80.0, 70.0, 3.1),
        "weak": (84.0, 78.0, 4.0),
        "strong": (81.0, 85.0, 2.0),
    }
    text = front_chart(points, measures, Axis(0, "hits"), (Axis(1, "kept"), Axis(2, "short", False)))
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    labels = [node for node in root.iter(f"{space}text") if node.text in measures]
    assert sorted(node.text or "" for node in labels) == sorted([*measures, *measures])
    assert len(list(root.iter(f"{space}circle"))) == 2 * len(points) + 2  # and the key
    places = [(float(n.attrib["x"]), float(n.attrib["y"])) for n in labels]
    for i, (x, y) in enumerate(places):
        assert all(abs(x - u) >= 100.0 or abs(y - v) >= 10.0 for u, v in places[:i])


def test_an_axis_on_which_all_points_agree_has_one_label() -> None:
    points = [Point("a", "least"), Point("b", "rival")]
    measures = {"a": (1.0, 0.7), "b": (1.0, 1.2)}
    root = ET.fromstring(front_chart(points, measures, Axis(0, "traffic"), [Axis(1, "power", False)]))
    texts = root.iter("{http://www.w3.org/2000/svg}text")
    assert [node.text for node in texts if node.get("text-anchor") == "middle"] == ["1"]


def test_labels_of_many_points_near_the_axis_stay_above_it() -> None:
    """Twelve fleets of one type at one traffic once ran over the marks of the axis."""
    names = [f"type {n} alone" for n in range(12)]
    points = [Point("dear", "rival"), *(Point(name, "rival") for name in names)]
    measures = {"dear": (1.0, 200.0), **{name: (1.0, 10.0 + n) for n, name in enumerate(names)}}
    root = ET.fromstring(front_chart(points, measures, Axis(0, "traffic"), [Axis(1, "cost", False)]))
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    heights = sorted(float(node.attrib["y"]) for node in texts if node.text in names)
    assert max(heights) <= 380.0 - 44.0, "the axis"
    assert all(low - high >= 10.0 for high, low in zip(heights, heights[1:], strict=False))
