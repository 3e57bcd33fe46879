"""Features of ONNX files: against what the network's reader says, free dimensions, and files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eunomia.core.errors import ConfigError, ModelError
from eunomia.study.sharing.graphs import graph_features, networks_in, traffic
from eunomia.workload.onnx import read_onnx

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "networks"
ENCODER = ROOT / "examples" / "models" / "encoder.onnx"


def test_they_are_what_the_reader_says() -> None:
    path = FOLDER / "tv-mobilenet-v3-small.onnx"
    assert path in networks_in(FOLDER)
    (found,), graph = graph_features([path]).values(), read_onnx(path)
    assert np.exp(found[:2]) == pytest.approx([graph.macs, graph.params])
    assert 5e7 < np.exp(found[0]) < 7e7  # torchvision: 0.06 billion operations


def test_free_dimensions_are_one_and_use_is_of_the_greatest() -> None:
    known = graph_features([FOLDER / "tv-mobilenet-v3-small.onnx", ENCODER])
    assert np.exp(known["encoder"][0]) == pytest.approx(read_onnx(ENCODER, dims={"seq": 1}).macs)
    use = traffic(known)
    assert use["encoder"] == 1.0 and 0.0 < use["tv-mobilenet-v3-small"] < 1.0  # a word alone is all weights


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no ONNX file; give a folder of networks"):
        networks_in(tmp_path)
    (tmp_path / "a.onnx").write_text("no network")
    with pytest.raises(ModelError, match=r"a\.onnx: it is not an ONNX file"):
        graph_features(networks_in(tmp_path))
