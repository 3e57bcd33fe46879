"""Tensors of which clients see another shape than the network has: ``reshape`` in Triton's ``config.pbtxt``.

The bytes are the same. A size that is free in one shape is free in the other, and they come in the same order. Source:
Triton's documentation, model_configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from eunomia.core.errors import ConfigError
from eunomia.serving.devices.answers import Inputs
from eunomia.serving.devices.messages import Port, Ports
from eunomia.serving.devices.strings import Value

Shape = tuple[int, ...]


class Reshape(NamedTuple):
    """The shape that clients see, and the network's own; -1 = free."""

    seen: Shape
    own: Shape


def presented(ports: Ports, reshapes: Mapping[str, tuple[Shape, Shape]]) -> Ports:
    """A network's ports as its clients see them; raises ConfigError for a shape that the network has not."""
    known = {port["name"]: port for port in (*ports["inputs"], *ports["outputs"])}
    for name, reshape in reshapes.items():
        _check(name, reshape, known.get(name), known)
    if not reshapes:
        return ports

    def seen(port: Port) -> Port:
        shape = reshapes[port["name"]][0] if port["name"] in reshapes else port["shape"]
        return {**port, "shape": list(shape)}

    inputs, outputs = list(map(seen, ports["inputs"])), list(map(seen, ports["outputs"]))
    return {**ports, "inputs": inputs, "outputs": outputs, "reshapes": reshapes}


def _check(name: str, reshape: tuple[Shape, Shape], port: Port | None, known: Mapping[str, Port]) -> None:
    seen, own = reshape
    text = f"config.pbtxt: reshape of '{name}' makes {list(own)} of {list(seen)}"
    if port is None:
        raise ConfigError(f"{text}, and the network has no such tensor; it has {', '.join(known)}")
    free = [[size for size in shape if size < 0] for shape in (seen, own)]
    if len(free[0]) != len(free[1]) or abs(math.prod(seen)) != abs(math.prod(own)):
        raise ConfigError(
            f"{text}, which has other sizes: as many have to be free, and as many elements be there"
        )
    its = port["shape"]
    if len(its) != len(own) or any(size not in (-1, mine) for size, mine in zip(its, own, strict=True)):
        raise ConfigError(f"{text}, and the network has {its}")


def as_the_network_has(ports: Ports, inputs: Inputs) -> Inputs:
    """Of inputs that fit ``ports``."""
    reshapes = ports.get("reshapes")
    if reshapes is None:
        return inputs
    return {n: t.reshape(_filled(t.shape, *reshapes[n])) if n in reshapes else t for n, t in inputs.items()}


def as_clients_see(ports: Ports, outputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Of a network's outputs; one in a shape that nobody foresaw stays as it is."""
    reshapes = ports.get("reshapes")
    if reshapes is None:
        return outputs
    found = dict(outputs)
    for name in reshapes.keys() & outputs.keys():
        seen, own = reshapes[name]
        shape = _filled(outputs[name].shape, own, seen)
        if math.prod(shape) == math.prod(outputs[name].shape):
            found[name] = outputs[name].reshape(shape)
    return found


def _filled(shape: Sequence[int], given: Shape, wanted: Shape) -> Shape:
    """The wanted shape of a tensor whose own, ``given``, has -1 for what is free."""
    free = iter([size for size, known in zip(shape, given, strict=False) if known < 0])
    return tuple([next(free, 1) if size < 0 else size for size in wanted])
