"""docs/metrics.md has every metric, with what its docstring says."""

from __future__ import annotations

import inspect
from itertools import groupby

import pytest

from checks import pages
from eunomia.metrics.causes import REASONS
from eunomia.metrics.table import METRICS

TEXT = (pages.ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_a_formula_and_says_when_it_misleads(name: str) -> None:
    said = inspect.getdoc(METRICS[name].formula) or ""
    formula, *others = said.split("\n\n")
    assert formula and not formula.startswith(("Misleads", "Source"))
    assert any(paragraph.startswith("Misleads: ") for paragraph in others)


@pytest.mark.parametrize("name", METRICS)
def test_the_page_gives_unit_and_direction(name: str) -> None:
    metric = METRICS[name]
    heads = [" ".join(item.split(":")[0].split()) for item in pages.metrics().split("\n* ")]
    (head,) = (head for head in heads if f"`{name}`" in head)
    assert f"({metric.unit}; {metric.better})" in head


def test_metrics_of_one_formula_stand_together() -> None:
    formulas = [key for key, _ in groupby(id(metric.formula) for metric in METRICS.values())]
    assert len(formulas) == len(set(formulas))


def test_a_generated_part_that_is_not_the_codes_is_found() -> None:
    assert pages.generated(TEXT) == TEXT
    assert pages.generated(TEXT.replace("Dropped and overdue requests are misses", "They are misses")) == TEXT


def test_reasons_for_misses_are_explained() -> None:
    for reason in REASONS:
        assert f"*{reason}*" in TEXT or f"*{reason.capitalize()}*" in TEXT


def test_labels_tell_metrics_apart() -> None:
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)
