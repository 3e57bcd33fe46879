"""docs/metrics.md and METRICS say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eunomia.metrics.causes import REASONS
from eunomia.metrics.summary import METRICS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| ([\w/]+) \| (higher|lower|neither) \|$", re.MULTILINE)


def sections() -> dict[str, str]:
    """Text from each anchor to the next heading of any level after its own."""
    found = {}
    for match in ANCHOR.finditer(TEXT):
        heading, _, rest = TEXT[match.end() :].lstrip().partition("\n")
        found[match[1]] = heading + "\n" + re.split(r"^(?:#|<a id)", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return found


def test_every_metric_has_its_anchor_and_every_anchor_a_metric() -> None:
    anchors = ANCHOR.findall(TEXT)
    assert len(anchors) == len(set(anchors))
    assert set(anchors) == {metric.anchor for metric in METRICS.values()}


@pytest.mark.parametrize("name", METRICS)
def test_unit_and_direction_are_those_of_the_table(name: str) -> None:
    metric = METRICS[name]
    rows = {row[0]: row[1:] for row in ROW.findall(sections()[metric.anchor])}
    assert rows[name] == (metric.unit, metric.better)


def test_the_document_lists_no_metric_that_does_not_exist() -> None:
    listed = [row[0] for row in ROW.findall(TEXT)]
    assert sorted(listed) == sorted(METRICS)


@pytest.mark.parametrize("anchor", sorted({metric.anchor for metric in METRICS.values()}))
def test_every_section_says_when_it_misleads(anchor: str) -> None:
    assert "*Misleads*" in sections()[anchor]


def test_reasons_for_misses_are_explained() -> None:
    for reason in REASONS:
        assert f"*{reason}*" in TEXT or f"*{reason.capitalize()}*" in TEXT


def test_labels_tell_metrics_apart() -> None:
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)
