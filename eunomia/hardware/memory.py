"""Whether networks fit: weights of all, and the activations of one request, against the bytes that are there.

Weights stay where they are for good. Activations of a request: outputs that some layer still reads, at their most, with
layers in the order in which the network lists them. Another order may need less, so a refusal is certain for the listed
order alone; requests side by side need more.
"""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.core.errors import PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.gpu import GpuType
from eunomia.workload.model import DnnModel

NAMED = 3  # networks that a refusal names
IN_PLACE = ("elementwise", "norm", "softmax", "reshape")  # may write over what they read


def weight_bytes(model: DnnModel, word_bytes: float) -> float:
    """Stored weights, shared ones once."""
    return model.params * word_bytes


def activation_bytes(model: DnnModel, word_bytes: float) -> float:
    """The most that one request holds at any time, layers one after another in the order of the network."""
    last = [max(after, default=layer) for layer, after in enumerate(model.successors)]
    live, most = 0, 0
    for number, layer in enumerate(model.layers):
        before = model.predecessors[number]
        freed = sum(model.layers[b].output_elements for b in before if last[b] == number)
        written = layer.output_elements
        if layer.kind in IN_PLACE:
            written -= min(written, freed)
        most = max(most, live + written + (0 if before else layer.input_elements))
        live += layer.output_elements - freed
    return most * word_bytes


def needed_gb(models: Sequence[DnnModel], word_bytes: float) -> float:
    """Weights of all networks and the activations of one request, the largest."""
    stored = sum(weight_bytes(model, word_bytes) for model in models)
    return (stored + max(activation_bytes(model, word_bytes) for model in models)) / 1e9


def check_shared(models: Sequence[DnnModel], word_bytes: float, memory_gb: float | None, where: str) -> None:
    """Raises PlatformError unless the memory that all share holds the networks; None = no limit."""
    need = needed_gb(models, word_bytes)
    if memory_gb is None or need <= memory_gb:
        return
    raise PlatformError(
        f"{where} is {memory_gb:g}, but {_called(models, word_bytes)} need {need:.3g} GB: weights of all, "
        "activations of one request; give more memory, or fewer or smaller networks"
    )


def fits(model: DnnModel, kind: AcceleratorType | GpuType) -> bool:
    """Whether the type's own memory holds this network and one request of it."""
    return not kind.memory_gb or needed_gb([model], kind.word_bytes) <= kind.memory_gb


def check_own(models: Sequence[DnnModel], kinds: Sequence[AcceleratorType | GpuType]) -> None:
    """Raises PlatformError for a network that no type has room for."""
    for model in models:
        if not any(fits(model, kind) for kind in kinds):
            most = max(kinds, key=lambda kind: kind.memory_gb / kind.word_bytes)
            need = needed_gb([model], most.word_bytes)
            raise PlatformError(
                f"'{model.name}' needs {need:.3g} GB on '{most.name}' (weights, activations of one request), whose "
                f"memory_gb is {most.memory_gb:g}; give a type with more memory, or a smaller network"
            )


def settled(kind: AcceleratorType | GpuType, models: Sequence[DnnModel]) -> AcceleratorType | GpuType:
    """The type with ``resident_weight_bytes`` full: the same share of every network's weights need not be fetched."""
    if not isinstance(kind, AcceleratorType) or not kind.resident_weight_bytes:
        return kind
    stored = sum(weight_bytes(model, kind.word_bytes) * kind.weight_compression for model in models)
    fetched = max(1.0 - kind.resident_weight_bytes / max(stored, 1.0), 1e-12)
    return kind.with_(weight_compression=kind.weight_compression * fetched, resident_weight_bytes=0.0)


def _called(models: Sequence[DnnModel], word_bytes: float) -> str:
    """The largest networks with their sizes."""
    sizes = sorted(((weight_bytes(m, word_bytes) / 1e9, m.name) for m in models), reverse=True)
    named = ", ".join(f"{name} ({size:.2g} GB)" for size, name in sizes[:NAMED])
    more = len(sizes) - NAMED
    return f"{named} and {more} more" if more > 0 else named
