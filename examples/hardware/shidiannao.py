"""ShiDianNao's dataflow: each element computes one output, neighbours hand inputs on.

Source: Du et al., "ShiDianNao: Shifting Vision Processing Closer to the Sensor", ISCA 2015. Its type is
``examples/hardware/shidiannao.toml``; a scenario takes it with

    [platform]
    accelerators = [{ file = "examples/hardware/shidiannao.toml", count = 2 }]
    dram_bandwidth_gb_s = 16.0
"""

from __future__ import annotations

from collections.abc import Iterator

from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.array_mapping import ArrayMapping
from eunomia.hardware.nest import Nest


def shidiannao(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    """A block of outputs stays in the array until all channels are summed, then the next block or filter follows.

    During a pass one kernel value reaches all elements per cycle. Inputs of the window come from the buffer once and
    go from neighbour to neighbour; where a window is too large for the elements, one of its rows at a time.
    Layers without rows and columns take one element per filter.
    """
    block = {"p": kind.array_rows, "q": kind.array_columns}
    for window in ({"r": nest.r, "s": nest.s}, {"s": nest.s}, {}):
        yield ArrayMapping(across=block, inside=window, order="gbkpqcrs")
    yield ArrayMapping(across={"k": kind.pes}, order="gbpqkcrs")
