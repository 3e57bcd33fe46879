"""Charts for notebooks and papers, with matplotlib; each draws estimates into axes that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.metrics.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes

TURN_LABELS = 5  # with more bars than this, their names are written at an angle


def new_axes() -> Axes:
    """Empty axes of a figure of their own. Raises ConfigError where matplotlib is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ConfigError(
            "plot() needs matplotlib, which is not installed: pip install 'eunomia[plot]'"
        ) from None
    return pyplot.subplots(layout="constrained")[1]


def bars(axes: Axes, estimates: Mapping[str, Estimate], label: str) -> None:
    """One bar per name, as high as the mean; the whisker is the 95 % interval."""
    names = list(estimates)
    means = [estimate.mean for estimate in estimates.values()]
    half = [e.half_width if e.is_shown else 0.0 for e in estimates.values()]
    places = np.arange(len(names))
    axes.bar(places, means, yerr=half, capsize=3.0)
    turned = len(names) > TURN_LABELS
    axes.set_xticks(places, names, rotation=30 if turned else 0, ha="right" if turned else "center")
    axes.set_ylabel(label)


def lines(
    axes: Axes, x: Sequence[float], series: Mapping[str, Sequence[Estimate]], labels: tuple[str, str]
) -> None:
    """One line per name over ``x`` with its 95 % interval; ``labels`` of both axes."""
    order = np.argsort(x, kind="stable")
    for name, estimates in series.items():
        half = np.array([e.half_width if e.is_shown else 0.0 for e in estimates])
        means = np.array([e.mean for e in estimates])
        axes.errorbar(np.asarray(x)[order], means[order], half[order], marker="o", capsize=3.0, label=name)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.legend()


def distribution(axes: Axes, values: Floats, label: str) -> None:
    """The share of values that are at most x, as steps."""
    found = np.sort(values[~np.isnan(values)])
    axes.step(found, np.arange(1, len(found) + 1) / max(len(found), 1), where="post")
    axes.set_xlabel(label)
    axes.set_ylabel("share of all")
    axes.set_ylim(0.0, 1.0)
