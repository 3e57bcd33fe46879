"""The example networks, exported again and counted by torch itself."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eunomia.workload.onnx import read_onnx

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exported(folder: Path, export: Callable[[Path], None]) -> Path:
    path = folder / "again.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(path)
    return path


def counted_macs(network: Any, example: Any) -> int:
    """What torch counts while the network runs: two operations per multiply-accumulate."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        network(example)
    return counter.get_total_flops() // 2


def test_encoder(tmp_path: Path) -> None:
    module = script("export_encoder")
    path = exported(tmp_path, module.export)
    network = module.build()
    for batch, seq in ((1, 128), (3, 50)):
        model = read_onnx(path, batch=batch, dims={"seq": seq})
        assert model.macs == counted_macs(network, torch.zeros(batch, seq, dtype=torch.int64))
        # the frequencies of the positions are stored too, though torch does not count them
        assert model.params == sum(p.numel() for p in network.parameters()) + 96 // 2
        shipped = read_onnx(EXAMPLES / "encoder.onnx", batch=batch, dims={"seq": seq})
        assert (shipped.macs, shipped.params) == (model.macs, model.params)


def test_detector(tmp_path: Path) -> None:
    module = script("export_detector")
    path = exported(tmp_path, module.export)
    network = module.build()
    model = read_onnx(path)
    assert model.macs == counted_macs(network, torch.zeros(1, 3, 320, 320))
    normalized = sum(m.num_features for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d))
    # the exporter folds each normalization into a bias: one number per channel is left of two
    assert model.params == sum(p.numel() for p in network.parameters()) - normalized
    shipped = read_onnx(EXAMPLES / "detector.onnx")
    assert (shipped.macs, shipped.params) == (model.macs, model.params)
