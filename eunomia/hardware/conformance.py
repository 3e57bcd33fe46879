"""Whether a dataflow keeps its contract: layers on which mappings go wrong, on arrays of two sizes."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.core.errors import ConfigError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.dataflow_names import BUILT_IN, DATAFLOWS
from eunomia.hardware.nest import nest_of
from eunomia.hardware.own_dataflow import as_dataflow, best_of, candidates
from eunomia.hardware.types import load_type
from eunomia.workload.model import Layer

LAYERS = {  # what is unlike in it
    "a convolution": Layer("conv", "conv", 1, 1, 16, 32, 28, 28, 28, 28, 3, 3, weight_elements=16 * 32 * 9),
    "an image of three channels, stride 2": Layer(
        "first", "conv", 1, 1, 3, 24, 61, 47, 31, 24, 7, 7, 2, 2, weight_elements=3 * 24 * 49
    ),
    "a kernel of 1 x 1": Layer("point", "conv", 1, 1, 40, 24, 13, 13, 13, 13, weight_elements=960),
    "a depthwise kernel": Layer("depth", "conv", 1, 32, 32, 32, 14, 14, 14, 14, 3, 3, weight_elements=32 * 9),
    "a kernel of 1 x 7, dilated": Layer(
        "wide", "conv", 1, 1, 8, 8, 9, 31, 9, 31, 1, 7, 1, 1, 1, 2, weight_elements=8 * 8 * 7
    ),
    "a batch of 4": Layer("batch", "conv", 4, 1, 8, 8, 7, 7, 7, 7, 3, 3, weight_elements=8 * 8 * 9),
    "a fully connected layer": Layer("dense", "matmul", 1, 1, 300, 100, weight_elements=30_000),
    "a product of activations": Layer(
        "attention", "matmul", 4, 1, 64, 48, 48, 1, 48, 1, operand_elements=4 * 64 * 48
    ),
}


def check_dataflow(dataflow: object, kinds: Sequence[AcceleratorType] = ()) -> None:
    """Ask it for mappings of every layer, twice, on each type.

    ``dataflow``: a name, ``FILE.py:NAME``, a function of (nest, type), or a class. ``kinds``: types that it is for; by
    default arrays of 32 x 32 and 3 x 2. Raises ConfigError for an illegal mapping and for what it raises. A second
    answer unlike the first is refused, too, and a dataflow without a mapping that fits.
    """
    what = f"dataflow '{dataflow if isinstance(dataflow, str) else getattr(dataflow, '__name__', dataflow)}'"
    if isinstance(dataflow, str) and dataflow in BUILT_IN:
        raise ConfigError(f"{what} is built in and proposes no mappings; check one of your own")
    proposes = as_dataflow(DATAFLOWS.resolve(dataflow) if isinstance(dataflow, str) else dataflow, what)
    for kind in kinds or arrays():
        ran = []
        for place, layer in LAYERS.items():
            nest, where = nest_of(layer), f"{what} for {place} on '{kind.name}'"
            found = candidates(proposes, nest, kind, where)
            if found != candidates(proposes, nest, kind, where):
                raise ConfigError(f"{where}: the second answer differs from the first; it must not remember")
            ran.append(best_of(found, nest, kind) is not None)
        if not any(ran):
            raise ConfigError(
                f"{what}: no mapping of any layer fits the elements and buffer of '{kind.name}'"
            )


def arrays() -> tuple[AcceleratorType, ...]:
    """A square array and a small one that nothing divides, each with 512 B of every operand per element."""
    large = load_type("systolic")
    assert isinstance(large, AcceleratorType)
    large = large.with_(pe_input_bytes=512, pe_weight_bytes=512, pe_psum_bytes=512)
    return large, large.with_(name="small", array_rows=3, array_columns=2)
