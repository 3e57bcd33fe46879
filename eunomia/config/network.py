"""``[[network]]``: a network of one's own, written out layer by layer, to be named by tenants like one of the zoo."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from eunomia.config.section import Name, Section
from eunomia.workload.model import LayerKind

Whole = Annotated[int, Field(ge=0)]


class LayerConfig(Section):
    """One layer; the keys are those of ``eunomia.Layer``."""

    name: Name
    kind: LayerKind
    batch: Whole = 1
    groups: Whole = 1
    in_channels: Whole = 1
    out_channels: Whole = 1
    in_h: Whole = 1
    in_w: Whole = 1
    out_h: Whole = 1
    out_w: Whole = 1
    kernel_h: Whole = 1
    kernel_w: Whole = 1
    stride_h: Whole = 1
    stride_w: Whole = 1
    dilation_h: Whole = 1
    dilation_w: Whole = 1
    weight_elements: Whole = 0
    operand_elements: Whole = 0
    ops: Whole = 0


class NetworkConfig(Section):
    """A network: layers in topological order, and the edges between them by their numbers."""

    name: Name
    layers: list[LayerConfig] = Field(min_length=1)
    edges: list[Annotated[list[Whole], Field(min_length=2, max_length=2)]] | None = None  # None = a chain
    source: str = ""
    word_bytes: Annotated[int, Field(ge=1)] = 1
    folded_params: Whole = 0
    shared_params: Whole = 0
