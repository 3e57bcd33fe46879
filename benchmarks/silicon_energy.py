"""Joules of the Eyeriss chip per layer: published power times published time, against the model.

Coefficients follow from sizes and process (``eunomia/hardware/technology.py``); one constant, the clock tree, is
fitted on AlexNet's five layers. The chip gates products of zero inputs: shares of zeros as published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.table import Cell, Table, table
from eunomia.hardware.layer_cost import LayerCost

ALEXNET_MW, ALEXNET_MS = (332, 288, 266, 235, 236), (20.9, 41.9, 23.6, 18.4, 10.5)  # power; total latency
VGG16_MW = (247, 218, 242, 231, 254, 235, 233, 278, 261, 240, 258, 236, 230)
VGG16_MS = (76.2, 910.3, 470.3, 894.3, 241.1, 460.9, 457.7, 135.8, 254.8, 246.3, 54.3, 53.7, 53.7)
VGG16_ZEROS = (0.016, 0.477, 0.248, 0.387, 0.397, 0.581, 0.587, 0.643, 0.747, 0.854, 0.794, 0.874, 0.885)


def joules(cost: LayerCost, zeros: float) -> float:
    """Of the chip alone, products of zeros gated."""
    split = cost.energy_split_j
    return cost.energy_j - split["dram"] - zeros * (split["mac"] + split["pe"])


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's, without ties."""
    first, second = (np.argsort(np.argsort(values)) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def energy_table(nets: dict[str, list[tuple[str, LayerCost, float]]]) -> Table:
    """``nets``: name -> (layer, cost, share of zeros) in the published order; constant power stands beside it."""
    published = {
        "AlexNet": [w * s * 1e-6 for w, s in zip(ALEXNET_MW, ALEXNET_MS, strict=True)],
        "VGG-16": [w * s * 1e-6 for w, s in zip(VGG16_MW, VGG16_MS, strict=True)],
    }
    constant_w = sum(published["AlexNet"]) / sum(ALEXNET_MS) * 1e3
    rows: list[list[Cell]] = []
    for net, layers in nets.items():
        chip_j, times = published[net], ALEXNET_MS if net == "AlexNet" else VGG16_MS
        model_j = [joules(cost, zeros) for _, cost, zeros in layers]
        static_w = layers[0][1].energy_split_j["static"] / layers[0][1].latency_s
        watts = [
            (joule - cost.energy_split_j["static"]) / (ms / 1e3) + static_w
            for joule, (_, cost, _), ms in zip(model_j, layers, times, strict=True)
        ]
        chip_w = [joule / (ms / 1e3) for joule, ms in zip(chip_j, times, strict=True)]
        for (name, _, _), j, chip, w, chip_watts in zip(layers, model_j, chip_j, watts, chip_w, strict=True):
            cells = [w * 1e3, chip_watts * 1e3, w / chip_watts - 1, constant_w / chip_watts - 1]
            rows.append([f"{net} {name}", *cells, j * 1e3, chip * 1e3, j / chip - 1])
        rows.append(
            [f"**{net}: mean abs.**", None, None, _mean(watts, chip_w), _mean([constant_w] * len(layers), chip_w),
             None, None, _mean(model_j, chip_j)]
        )  # fmt: skip
        ranks = rank_correlation(watts, chip_w), rank_correlation(model_j, chip_j)
        rows.append([f"{net}: rank correlation", None, None, ranks[0], None, None, None, ranks[1]])
    return table(
        "energy", "layer; mW over the published time: model|.0f; chip|.0f; error|+.1%; of constant power|+.1%; "
        "mJ in the model's own time: model|.2f; chip|.2f; error|+.1%", rows,
    )  # fmt: skip


def _mean(found: Iterable[float], chip: Iterable[float]) -> float:
    return float(np.mean([abs(a / b - 1) for a, b in zip(found, chip, strict=True)]))
