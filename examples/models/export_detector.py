"""Export the image network of the examples: inverted residuals with squeeze-and-excitation.

    python examples/models/export_detector.py [detector.onnx]

Needs torch and onnxscript. The weights are left out of the file (their shapes stay), because what
a layer costs depends on shapes alone; the batch stays free (``batch``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import torch
from torch import nn


class Block(nn.Module):
    """Expand, filter each channel, weigh channels, project; with a shortcut where the shape stays."""

    def __init__(self, channels: int, result: int, stride: int) -> None:
        super().__init__()
        hidden = 4 * channels
        self.shortcut = stride == 1 and channels == result
        self.expand = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()
        )
        self.filter = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
        )
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(hidden, channels, 1), nn.ReLU(),
            nn.Conv2d(channels, hidden, 1), nn.Sigmoid(),
        )  # fmt: skip
        self.project = nn.Sequential(nn.Conv2d(hidden, result, 1, bias=False), nn.BatchNorm2d(result))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, h, w) to (batch, result, h / stride, w / stride)."""
        y = self.filter(self.expand(x))
        y = self.project(y * self.weigh(y))
        return x + y if self.shortcut else y


class Detector(nn.Module):
    """A backbone of blocks, and two heads that read two of its scales in parallel."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.SiLU())
        self.fine = nn.Sequential(Block(24, 32, 2), Block(32, 32, 1), Block(32, 64, 2), Block(64, 64, 1))
        self.coarse = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1), Block(128, 128, 1))
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 3 * (5 + classes), 1))
            for channels in (64, 128)
        )

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, 3, 320, 320) to box maps of 40 x 40 and 20 x 20."""
        fine = self.fine(self.stem(image))
        return self.heads[0](fine), self.heads[1](self.coarse(fine))


def build() -> Detector:
    """The network with seeded random weights, normalizations included, as if it had been trained."""
    torch.manual_seed(0)
    detector = Detector().eval()
    for module in detector.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.bias, 0.0, 0.1)
            nn.init.normal_(module.running_mean, 0.0, 0.1)
    return detector


def export(path: Path) -> None:
    """Write the ONNX file without weights."""
    program = torch.onnx.export(
        build(), (torch.zeros(2, 3, 320, 320),), input_names=["image"], output_names=["fine", "coarse"],
        dynamic_shapes={"image": {0: torch.export.Dim("batch", max=1024)}}, dynamo=True, verbose=False,
    )  # fmt: skip
    model = program.model_proto
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > 1024:
            strip(tensor)
    path.write_bytes(without_notes(model).SerializeToString())


def without_notes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Drop what the exporter notes about the program it came from: stack traces, module names."""
    graph = model.graph
    for part in (
        model,
        graph,
        *graph.node,
        *graph.value_info,
        *graph.input,
        *graph.output,
        *graph.initializer,
    ):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return model


def strip(tensor: onnx.TensorProto) -> None:
    """Keep type and shape of a tensor; say that its data stand in a file that is not shipped."""
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value="not-shipped.bin")


if __name__ == "__main__":
    export(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("detector.onnx"))
