"""Layers that run as one, each reading only what the one before it wrote: a row of a network for the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eunomia.workload.model import DnnModel, Layer

Link = tuple[int, int]  # (layer, the only layer that reads it)


@dataclass(frozen=True, slots=True)
class Chain(Layer):
    """``parts`` in order; shapes and kind are those of the first part with MACs, sizes are sums."""

    parts: tuple[Layer, ...] = ()

    @property
    def macs(self) -> int:
        """Of all parts."""
        return sum(part.macs for part in self.parts)

    @property
    def input_elements(self) -> int:
        """What the first part reads."""
        return self.parts[0].input_elements

    @property
    def output_elements(self) -> int:
        """What the last part writes."""
        return self.parts[-1].output_elements

    def with_batch(self, times: int) -> Chain:
        """The same chain for so many inputs."""
        return chain_of([part.with_batch(times) for part in self.parts])

    def shape_key(self) -> tuple[object, ...]:
        """The shapes of all parts."""
        return ("chain", *(part.shape_key() for part in self.parts))


def chain_of(parts: Sequence[Layer]) -> Chain:
    """One layer of several."""
    main = next((part for part in parts if part.has_macs), parts[0])
    shape = {
        name: getattr(main, name)
        for name in Layer.__dataclass_fields__
        if name not in ("name", "weight_elements", "operand_elements", "ops")
    }
    return Chain(
        name="+".join(part.name for part in parts),
        **shape,
        weight_elements=sum(part.weight_elements for part in parts),
        operand_elements=sum(part.operand_elements for part in parts),
        ops=sum(part.ops for part in parts),
        parts=tuple(parts),
    )


def links(model: DnnModel) -> Iterator[Link]:
    """Edges whose tensor nobody else reads, into layers that read no other activation."""
    for before, after in model.edges:
        alone = len(model.successors[before]) == 1 and len(model.predecessors[after]) == 1
        if alone and not model.layers[after].operand_elements:
            yield before, after


def joined(model: DnnModel, held: Sequence[Link], most: int) -> DnnModel:
    """The network with chains of at most ``most`` layers along these links as single layers."""
    follows, start = dict(held), {after for _, after in held}
    chains: list[list[int]] = []
    for first in range(len(model.layers)):
        if first in start:
            continue
        chain = [first]
        while chain[-1] in follows:
            chain.append(follows[chain[-1]])
        chains += [chain[n : n + most] for n in range(0, len(chain), most)]
    chains.sort()
    at = {layer: number for number, chain in enumerate(chains) for layer in chain}
    layers = [
        model.layers[chain[0]] if len(chain) == 1 else chain_of([model.layers[n] for n in chain])
        for chain in chains
    ]
    edges = {(at[before], at[after]) for before, after in model.edges if at[before] != at[after]}
    return replace(model, layers=tuple(layers), edges=tuple(sorted(edges)))
