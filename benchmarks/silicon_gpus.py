"""GPUs whose times were published: each batch size left out, against the plain roofline of the data sheet."""

from __future__ import annotations

import numpy as np

from benchmarks.table import Cell, Table, table
from eunomia.hardware.gpu import GpuType, MeasuredPoints
from eunomia.hardware.measured import left_out
from eunomia.hardware.types import load_type
from eunomia.workload import zoo
from eunomia.workload.model import DnnModel
from eunomia.workload.zoo.bert import bert_base

LONG = 20.0  # GMAC: bert-base of 384 tokens has more, of 128 less


def network(points: MeasuredPoints) -> tuple[str, DnnModel]:
    """The network that was measured."""
    if points.network != "bert-base":
        return points.network, zoo.load(points.network)
    tokens = 384 if points.gmac > LONG else 128
    return f"bert-base, {tokens} tokens", bert_base(tokens)


def gpus_table() -> Table:
    """One row per GPU and network."""
    rows: list[list[Cell]] = []
    for name in ("t4-trt", "v100-trt", "a100-trt"):
        kind = load_type(name)
        assert isinstance(kind, GpuType)
        for points in kind.measured:
            what, model = network(points)
            found = left_out(model.layers, kind, points)
            roofline, left = (np.abs([row[n] for row in found]) for n in (1, 2))
            means = [float(x) for part in (roofline, left) for x in (part.mean(), part.max())]
            sizes = f"{points.batch[0]} to {points.batch[-1]}"
            rows.append([name, what, sizes, len(found), *means, float(left[1:-1].mean())])
    return table(
        "gpus", "type; network; batch; points|.0f; roofline: mean abs.|.1%; worst|.1%; "
        "left out: mean abs.|.1%; worst|.1%; between two points|.1%", rows,
    )  # fmt: skip
