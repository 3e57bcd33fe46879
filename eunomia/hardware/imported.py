"""Results of other cost models as rows of a cost CSV: which layer is which, cycles to seconds, words to bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from eunomia.core.errors import ConfigError
from eunomia.hardware.estimate import features
from eunomia.hardware.results.figures import LayerFigures
from eunomia.workload.model import DnnModel

COLUMNS = ("model", "layer", "type", "compute_s", "dram_bytes", "energy_j", "link_bytes_s", "origin")


@dataclass(frozen=True)
class Import:
    """For which accelerator type the figures are. ``link_gb_s``: its own DRAM bandwidth; None = without limit."""

    kind: str
    tool: str
    clock_mhz: float
    word_bytes: float = 1.0
    link_gb_s: float | None = None


def cost_rows(figures: Sequence[LayerFigures], model: DnnModel, names: Sequence[str], how: Import) -> str:
    """The text of a CSV. ``names``: layers of the network in the order of the figures.

    Without names, layers go by their own names where all are layers of the network. Else they go in order where there
    are as many figures as layers with MACs. Where DRAM words are unknown, every tensor crosses DRAM once.
    Raises ConfigError.
    """
    layers = _layers(figures, model, names)
    least_words = features(model.layers)[:, 2]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    link = "" if how.link_gb_s is None else repr(how.link_gb_s * 1e9)
    for at, found in zip(layers, figures, strict=True):
        words = float(least_words[at]) if found.dram_words is None else found.dram_words
        energy = "" if found.energy_j is None else repr(found.energy_j)
        seconds = repr(found.cycles / (how.clock_mhz * 1e6))
        cells = [seconds, repr(words * how.word_bytes), energy, link, f"imported ({how.tool})"]
        writer.writerow([model.name, at, how.kind, *cells])
    return text.getvalue()


def _layers(figures: Sequence[LayerFigures], model: DnnModel, names: Sequence[str]) -> list[int]:
    """Index of the layer behind each entry."""
    index = {layer.name: n for n, layer in enumerate(model.layers)}
    index |= {str(n): n for n in range(len(model.layers))}
    wanted = list(names) or [found.name for found in figures]
    if len(wanted) != len(figures):
        raise ConfigError(
            f"{len(wanted)} layers are named, but the results have {len(figures)}; name each in order"
        )
    if len(set(wanted)) == len(wanted) and all(name in index for name in wanted):
        return [index[name] for name in wanted]
    if names:
        unknown = next((name for name in wanted if name not in index), None)
        fault = f"'{unknown}' is no layer of {model.name}" if unknown else "a layer is named twice"
        raise ConfigError(f"{fault}; eunomia models {model.name} lists them")
    busy = [n for n, layer in enumerate(model.layers) if layer.has_macs]
    if len(busy) == len(figures):
        return busy
    raise ConfigError(
        f"the results have {len(figures)} layers, {model.name} has {len(busy)} with MACs; "
        "name the layers in order with --layers"
    )
