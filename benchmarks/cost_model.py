"""How far the cost model is from silicon: ``python -m benchmarks.cost_model [--write]``.

Prints the AlexNet table (used to choose the model's rules), the VGG-16 table (never used) and isolated
costs of networks on the default types; ``--write`` puts them into results/cost-model.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.eyeriss import VGG16_BUFFER_MB, VGG16_MS, Measured, alexnet, vgg16
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.build import build_table
from eunomia.hardware.compression import run_length_factor
from eunomia.hardware.layer_cost import LayerCost
from eunomia.hardware.types import cost_of, load_type
from eunomia.workload import zoo

DOCUMENT = Path(__file__).resolve().parent.parent / "results" / "cost-model.md"
BEGIN, END = "<!-- begin: python -m benchmarks.cost_model --write -->", "<!-- end -->"


@dataclass(frozen=True)
class Comparison:
    """Model against silicon, one layer."""

    measured: Measured
    cost: LayerCost
    dram_bytes: float  # after estimated compression

    @property
    def latency_error(self) -> float:
        """Relative error of the array-and-buffer time against the processing latency."""
        return max(self.cost.compute_s, self.cost.buffer_s) / self.measured.processing_s - 1

    @property
    def dram_error(self) -> float:
        """Relative error of compressed DRAM bytes."""
        return self.dram_bytes / self.measured.dram_bytes - 1

    @property
    def raw_dram_error(self) -> float:
        """The same without compression in the model."""
        return self.cost.dram_bytes / self.measured.dram_bytes - 1

    @property
    def buffer_error(self) -> float:
        """Relative error of global-buffer bytes."""
        return self.cost.traffic.buffer_bytes / self.measured.buffer_bytes - 1


def compare_alexnet(
    kind: AcceleratorType | None = None, rows: list[Measured] | None = None
) -> list[Comparison]:
    """All five layers on the Eyeriss chip.

    Feature maps are run-length coded, weights and the first layer's input are not. The share of zeros
    of an output is taken from the next layer's input (the last layer's from its own).
    """
    chip = kind or load_type("eyeriss-chip")
    rows = rows or alexnet()
    found = []
    for i, row in enumerate(rows):
        cost = cost_of(row.layer, chip)
        traffic = cost.traffic
        after = rows[min(i + 1, len(rows) - 1)].zero_share
        coded = traffic.dram_input_bytes * (1.0 if i == 0 else run_length_factor(_with_padding(row)))
        coded += traffic.dram_weight_bytes + traffic.dram_output_bytes * run_length_factor(after)
        found.append(Comparison(row, cost, coded))
    return found


def _with_padding(row: Measured) -> float:
    """Share of zeros of the input, padding included."""
    layer = row.layer
    padded_h = (layer.out_h - 1) * layer.stride_h + layer.kernel_h
    padded_w = (layer.out_w - 1) * layer.stride_w + layer.kernel_w
    return 1 - (1 - row.zero_share) * layer.in_h * layer.in_w / max(
        padded_h * padded_w, layer.in_h * layer.in_w
    )


def alexnet_table() -> str:
    """Per-layer errors on AlexNet, as Markdown."""
    lines = [
        "| layer | ms: model | chip | error | PEs: model | chip | buffer MB: model | chip | error "
        "| DRAM MB: model, coded | chip, coded | error | model, raw | error |",
        "|---|" + "---:|" * 13,
    ]
    found = compare_alexnet()
    for c in found:
        m, t = c.measured, c.cost.traffic
        lines.append(
            f"| {m.layer.name} | {max(c.cost.compute_s, c.cost.buffer_s) * 1e3:.1f} | {m.processing_s * 1e3:.1f} "
            f"| {c.latency_error:+.1%} | {t.active_pes} | {m.active_pes} | {t.buffer_bytes / 1e6:.1f} "
            f"| {m.buffer_bytes / 1e6:.1f} | {c.buffer_error:+.1%} | {c.dram_bytes / 1e6:.2f} "
            f"| {m.dram_bytes / 1e6:.1f} | {c.dram_error:+.1%} | {c.cost.dram_bytes / 1e6:.2f} "
            f"| {c.raw_dram_error:+.1%} |"
        )
    mean = {name: np.mean([abs(getattr(c, name)) for c in found]) for name in
            ("latency_error", "buffer_error", "dram_error", "raw_dram_error")}  # fmt: skip
    lines.append(
        f"| mean abs. | | | **{mean['latency_error']:.1%}** | | | | | {mean['buffer_error']:.1%} "
        f"| | | **{mean['dram_error']:.1%}** | | {mean['raw_dram_error']:.1%} |"
    )
    return "\n".join(lines)


def vgg16_table() -> str:
    """Per-layer errors on VGG-16, as Markdown."""
    lines = ["| layer | ms: model | chip | error | PEs | buffer MB: model | chip | DRAM MB: model, raw |",
             "|---|" + "---:|" * 7]  # fmt: skip
    errors, total = [], 0.0
    for layer, chip_ms, chip_mb in zip(vgg16(), VGG16_MS, VGG16_BUFFER_MB, strict=True):
        cost = cost_of(layer, load_type("eyeriss-chip"))
        ms = max(cost.compute_s, cost.buffer_s) * 1e3
        errors.append(abs(ms / chip_ms - 1))
        total += ms
        lines.append(
            f"| {layer.name} | {ms:.1f} | {chip_ms:.1f} | {ms / chip_ms - 1:+.1%} | {cost.traffic.active_pes} "
            f"| {cost.traffic.buffer_bytes / 1e6:.0f} | {chip_mb:.0f} | {cost.dram_bytes / 1e6:.1f} |"
        )
    lines.append(f"| all | {total:.0f} | {sum(VGG16_MS):.0f} | {total / sum(VGG16_MS) - 1:+.1%} | | | | |")
    lines.append(f"| mean abs. | | | **{np.mean(errors):.1%}** | | | | |")
    return "\n".join(lines)


def networks_table(types: tuple[str, ...] = ("simba", "eyeriss")) -> str:
    """Isolated latency, demand and energy of every network of the zoo, as Markdown."""
    names = zoo.names()
    models = [zoo.load(name) for name in names]
    table = build_table(models, [load_type(name) for name in types], use_cache=False)
    lines = ["| network | GMAC | " + " | ".join(f"{t}: ms | GB/s | mJ" for t in types) + " |",
             "|---|" + "---:|" * (1 + 3 * len(types))]  # fmt: skip
    for i, (name, model) in enumerate(zip(names, models, strict=True)):
        rows = slice(table.offsets[i], table.offsets[i + 1])
        seconds, moved = table.latency_s[rows].sum(axis=0), table.dram_bytes[rows].sum(axis=0)
        cells = [
            f"{s * 1e3:.2f} | {b / s / 1e9:.1f} | {e * 1e3:.1f}"
            for s, b, e in zip(seconds, moved, table.energy_j[rows].sum(axis=0), strict=True)
        ]
        lines.append(f"| {name} | {model.macs / 1e9:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report() -> str:
    """All tables, as Markdown."""
    return "\n\n".join(
        [
            "### AlexNet on the Eyeriss chip, batch 4 (calibration set)", alexnet_table(),
            "### VGG-16 on the Eyeriss chip, batch 3 (independent test)", vgg16_table(),
            "### Networks on the default types, batch 1, isolated", networks_table(),
        ]
    )  # fmt: skip


def main() -> None:
    """Print the tables, and write them into the documentation if asked to."""
    text = report()
    print(text)
    if "--write" in sys.argv[1:]:
        page = DOCUMENT.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
