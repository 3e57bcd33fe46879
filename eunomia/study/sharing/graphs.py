"""What an ONNX file tells of a network before it runs, for the predictors of interference (Horus, inspired by)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, within
from eunomia.workload.onnx import read_onnx
from eunomia.workload.onnx.file import load_model


def networks_in(folder: Path) -> list[Path]:
    """The ONNX files of a folder; ConfigError if there is none."""
    found = sorted(folder.glob("*.onnx"))
    if not found:
        raise ConfigError(
            f"{folder} holds no ONNX file; give a folder of networks, or a CSV file of features"
        )
    return found


def graph_features(paths: Iterable[Path]) -> dict[str, Floats]:
    """By name of the file: logarithms of operations, weights, activations (elements) and layers.

    Free dimensions are 1, as ``eunomia profile corun`` runs them. Raises ModelError for a file that cannot be read.
    """
    found = {}
    for path in paths:
        graph = read_onnx(path, dims=dict.fromkeys(_free(path), 1))
        moved = sum(layer.input_elements + layer.output_elements for layer in graph.layers)
        found[path.stem] = np.log([max(graph.macs, 1), max(graph.params, 1), moved, len(graph.layers)])
    return found


def traffic(features: dict[str, Floats]) -> dict[str, float]:
    """Elements moved per operation, over the greatest: a stand-in for how much of the memory a network uses."""
    each = {name: math.exp(np.logaddexp(of[1], of[2]) - of[0]) for name, of in features.items()}
    return {name: one / max(each.values()) for name, one in each.items()}


def _free(path: Path) -> set[str]:
    with within(str(path)):
        inputs = load_model(path).graph.input
    return {size.dim_param for one in inputs for size in one.type.tensor_type.shape.dim if size.dim_param}
