"""Export the text encoder of the examples: a small transformer over bytes, weights random but seeded.

    python examples/models/export_encoder.py [encoder.onnx]

Needs torch and onnxscript. Batch and sequence length stay free in the file (``batch``, ``seq``).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import onnx
import torch
from torch import nn


class Layer(nn.Module):
    """Self-attention and feed-forward, normalized before each."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add attention, then the feed-forward part: (batch, seq, width) to the same."""
        y = self.norm1(x)
        batch, seq, width = y.shape
        q, k, v = (
            part(y).view(batch, seq, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, width)
        x = x + self.output(y)
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


class Encoder(nn.Module):
    """Bytes of a text to one unit-free vector: the mean over the last layer."""

    def __init__(self, width: int = 96, layers: int = 2, heads: int = 4, hidden: int = 288) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        rate = torch.exp(-math.log(10_000.0) * torch.arange(0, width, 2) / width)
        self.register_buffer("rate", rate, persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """(batch, seq) bytes to (batch, width)."""
        angle = torch.arange(text.shape[1])[:, None] * self.rate  # (seq, width / 2)
        x = self.embedding(text) + torch.cat((angle.sin(), angle.cos()), dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean(dim=1)


def build() -> Encoder:
    """The encoder with the weights of the example file.

    Fresh normalizations are all alike, and an exporter stores equal tensors once: random ones are not.
    """
    torch.manual_seed(0)
    encoder = Encoder().eval()
    for module in encoder.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, 1.0, 0.1)
            nn.init.normal_(module.bias, 0.0, 0.1)
    return encoder


def export(path: Path) -> None:
    """Write the ONNX file."""
    free = {0: torch.export.Dim("batch", max=1024), 1: torch.export.Dim("seq", max=4096)}
    program = torch.onnx.export(
        build(), (torch.zeros(2, 32, dtype=torch.int64),), input_names=["text"], output_names=["vector"],
        dynamic_shapes={"text": free}, dynamo=True, verbose=False,
    )  # fmt: skip
    path.write_bytes(without_notes(program.model_proto).SerializeToString())


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


if __name__ == "__main__":
    export(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("encoder.onnx"))
