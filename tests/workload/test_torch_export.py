"""The example networks, exported again and counted by torch itself."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eunomia.core.errors import ModelError
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


def counted_macs(network: Any, *example: Any) -> int:
    """What torch counts while the network runs: two operations per multiply-accumulate.

    Fused kernels, which hide their products from the counter, are off.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            torch.no_grad(),
            sdpa_kernel(SDPBackend.MATH),
            torch.backends.mkldnn.flags(enabled=False),
            counter,
        ):
            network(*example)
    return counter.get_total_flops() // 2


def export(folder: Path, network: Any, example: tuple[Any, ...], dynamo: bool, **settings: Any) -> Path:
    """The network written by either exporter of torch, with weights that no two tensors have in common."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    network.eval()
    return exported(folder, lambda path: torch.onnx.export(network, example, path, dynamo=dynamo, **settings))


def parameters(network: Any) -> int:
    return sum(p.numel() for p in network.parameters())


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


@pytest.mark.parametrize("dynamo", [False, True], ids=["legacy", "dynamo"])
@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
@pytest.mark.filterwarnings("ignore")
def test_stacked_recurrent_layers_in_both_directions(tmp_path: Path, cell: str, dynamo: bool) -> None:
    """Sizes at which the exporters leave the reordering of gates in the file, as nodes on stored weights."""
    network = getattr(torch.nn, cell)(96, 160, num_layers=2, bidirectional=True)
    example = [torch.zeros(3, 2, 96), torch.zeros(4, 2, 160)]
    if cell == "LSTM":
        example[1] = (example[1], example[1])
    model = read_onnx(export(tmp_path, network, tuple(example), dynamo))
    assert model.params == parameters(network)
    assert model.macs == counted_macs(network, *example)


class MaskedAttention(torch.nn.Module):  # type: ignore[misc]
    """One layer of a decoder: a causal mask built from the length, and one over padding given as input."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(50, 32), torch.nn.Embedding(64, 32)
        self.attend = torch.nn.Linear(32, 96)
        self.out = torch.nn.Linear(32, 1)

    def forward(self, ids: Any, kept: Any) -> Any:
        batch, length = ids.shape
        x = self.words(ids) + self.places(torch.arange(length))
        q, k, v = (part.view(batch, length, 4, 8).transpose(1, 2) for part in self.attend(x).chunk(3, -1))
        causal = torch.triu(torch.full((length, length), float("-inf")), 1)
        mask = causal.masked_fill((kept == 0)[:, None, None, :], float("-inf"))
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        allowed = torch.tril(torch.ones(length, length, dtype=torch.bool))
        made = made + torch.nn.functional.scaled_dot_product_attention(k, q, v, attn_mask=allowed)
        return self.out(made.transpose(1, 2).reshape(batch, length, 32))


@pytest.mark.parametrize("dynamo", [False, True], ids=["legacy", "dynamo"])
@pytest.mark.filterwarnings("ignore")
def test_attention_masked_by_minus_infinity(tmp_path: Path, dynamo: bool) -> None:
    network = MaskedAttention()
    example = (torch.zeros(2, 16, dtype=torch.int64), torch.ones(2, 16, dtype=torch.int64))
    length = {1: "length"}
    free = (
        {"dynamic_shapes": (length, length)} if dynamo else {"dynamic_axes": {"ids": length, "kept": length}}
    )
    path = export(tmp_path, network, example, dynamo, input_names=["ids", "kept"], **free)
    for size in (16, 40):
        model = read_onnx(path, dims={"length": size})
        assert model.macs == counted_macs(network, *(x[:, :1].repeat(1, size) for x in example))
        assert model.params == parameters(network)


class Branching(torch.nn.Module):  # type: ignore[misc]
    """One product, then another one or two, as the data say."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.right = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return torch.cond(x.sum() > 0, self.left, lambda x: torch.relu(self.right(self.right(x))), (x,))


@pytest.mark.filterwarnings("ignore")
def test_a_branch_that_torch_exports(tmp_path: Path) -> None:
    path = export(tmp_path, Branching(), (torch.zeros(2, 8),), dynamo=True)
    with pytest.raises(ModelError, match="its condition depends on data") as caught:
        read_onnx(path)
    name = str(caught.value).partition("branches={'")[2].partition("'")[0]
    for branch, products, params in (("then", 2, 2 * 72), ("else", 3, 72 + 64)):
        model = read_onnx(path, branches={name: branch})
        assert (model.macs, model.params) == (products * 2 * 64, params)


class Repeating(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.step, self.out = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        for _ in range(times):
            x = torch.relu(self.step(x))
            if bool(x.sum() > 0):
                x = self.step(x)
        return self.out(x)


@pytest.mark.filterwarnings("ignore")
def test_a_scripted_loop_with_a_branch_in_it(tmp_path: Path) -> None:
    network = torch.jit.script(Repeating())
    path = export(tmp_path, network, (torch.zeros(2, 8), torch.tensor(3)), dynamo=False)
    for times in (1, 4):
        choices = {"trip_counts": {"/Loop": times}, "branches": {"/If": "then", "/Loop/0//If": "else"}}
        model = read_onnx(path, **choices)
        assert model.macs == (2 * times - 1) * 2 * 64 + 2 * 8
        assert model.params == parameters(network)


class Scanning(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.step = torch.nn.Linear(8, 8)

    def forward(self, x: Any, start: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        def one(state: Any, row: Any) -> tuple[Any, Any]:
            new = torch.tanh(self.step(state) + row)
            return new, new.clone()

        return scan(one, start, x, dim=0)


@pytest.mark.filterwarnings("ignore")
def test_a_scan_that_torch_exports(tmp_path: Path) -> None:
    network = Scanning()
    model = read_onnx(export(tmp_path, network, (torch.zeros(5, 2, 8), torch.zeros(2, 8)), dynamo=True))
    assert model.macs == 5 * 2 * 64
    assert model.params == parameters(network)
