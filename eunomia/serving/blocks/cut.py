"""Where an optimised graph can be cut, and the pieces as networks of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

MAX_LIVE = 2  # tensors that may cross a cut, where that makes short blocks
HOLLOW_BYTES = 2**16  # of a weight whose numbers tell no type or shape


@dataclass(frozen=True)
class Cut:
    """A place before node ``position`` where few tensors are alive; their names, in order of appearance."""

    position: int
    live: tuple[str, ...]


@dataclass(frozen=True)
class Segment:
    """Nodes ``first`` up to ``last`` (not included) as a network: what goes in and what comes out."""

    first: int
    last: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def cut_points(model: onnx.ModelProto, max_live: int = MAX_LIVE) -> list[Cut]:
    """Every place where at most ``max_live`` tensors cross, the two ends included.

    A tensor from before a place (a network input counts) is alive there if it is read later, or is an output
    of the network. Weights are not counted: each piece carries its own. Cost: one pass over the graph.
    """
    graph = model.graph
    weights = {w.name for w in graph.initializer} | {w.values.name for w in graph.sparse_initializer}
    inputs = [i.name for i in graph.input if i.name not in weights]
    outputs = [o.name for o in graph.output]
    last_use = _last_uses(graph, outputs)
    alive = [name for name in inputs if last_use.get(name, -1) >= 0]
    cuts = [Cut(0, tuple(inputs))]
    for n, node in enumerate(graph.node):
        alive = [name for name in alive if last_use[name] > n]
        alive += [name for name in node.output if name and last_use.get(name, -1) > n]
        if n + 1 < len(graph.node) and 0 < len(alive) <= max_live:
            cuts.append(Cut(n + 1, tuple(alive)))
    cuts.append(Cut(len(graph.node), tuple(outputs)))
    return cuts


def segments(cuts: Sequence[Cut]) -> list[Segment]:
    """The pieces between neighbouring cuts."""
    return [Segment(a.position, b.position, a.live, b.live) for a, b in zip(cuts, cuts[1:], strict=False)]


def segment_model(model: onnx.ModelProto, segment: Segment, types: dict[str, int]) -> onnx.ModelProto:
    """One piece as an ``onnx.ModelProto``; ``types``: element type of every tensor at a cut."""
    import onnx

    graph = model.graph
    nodes = list(graph.node[segment.first : segment.last])
    read = names_read(nodes) | set(segment.outputs)  # a weight may be an output of the network
    piece = onnx.GraphProto(name=f"{graph.name or 'network'}_{segment.first}_{segment.last}")
    piece.node.extend(nodes)
    piece.initializer.extend(w for w in graph.initializer if w.name in read)
    piece.sparse_initializer.extend(w for w in graph.sparse_initializer if w.values.name in read)
    declared = {v.name: v for v in (*graph.input, *graph.output)}
    given = {v.name for v in graph.input}  # packed, weights among them would round otherwise
    for names, ports in ((segment.inputs, piece.input), (segment.outputs, piece.output)):
        ports.extend(declared.get(n) or onnx.helper.make_tensor_value_info(n, types[n], None) for n in names)
    piece.input.extend(declared[w.name] for w in piece.initializer if w.name in given)
    network = onnx.ModelProto(ir_version=model.ir_version, graph=piece)
    network.opset_import.extend(model.opset_import)
    network.functions.extend(model.functions)
    return network


def element_types(model: onnx.ModelProto, names: Sequence[str], folder: Path | None = None) -> dict[str, int]:
    """Element types of tensors inside an optimised graph, as ONNX Runtime infers them; ``folder``: of its weights.

    Those that may not cross a cut have none: sequences, optionals, numbers of 8 bits and less that NumPy lacks.
    """
    known = {port.name for port in (*model.graph.output, *model.graph.input)}
    wanted = [name for name in dict.fromkeys(names) if name not in known]
    try:
        kinds = _kinds(model, wanted, folder, hollow=True)
    except Exception:  # ONNX Runtime's exceptions share no base; a kernel may look at a weight as it is made
        kinds = _kinds(model, wanted, folder, hollow=False)
    return {name: _ELEMENT[kinds[name]] for name in dict.fromkeys(names) if kinds[name] in _ELEMENT}


def _kinds(
    model: onnx.ModelProto, wanted: Sequence[str], folder: Path | None, *, hollow: bool
) -> dict[str, str]:
    """Types of these and of all ports. ``hollow``: zeros of no room on the disk stand for long weights."""
    import onnx
    import onnxruntime as ort

    from eunomia.serving.blocks.optimise import SCRATCH, session_options

    options = session_options(optimised=True)
    options.add_session_config_entry("session.disable_prepacking", "1")
    with ExitStack() as stack:
        file, zeros = (
            stack.enter_context(tempfile.NamedTemporaryFile(prefix=SCRATCH, dir=folder)) for _ in range(2)
        )
        probe = onnx.ModelProto(ir_version=model.ir_version)
        probe.opset_import.extend(model.opset_import)
        probe.functions.extend(model.functions)
        graph, before = probe.graph, model.graph
        graph.name = before.name
        for part in ("node", "input", "output", "value_info", "sparse_initializer"):
            getattr(graph, part).extend(getattr(before, part))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
        longest = 0
        for weight in before.initializer:
            length = len(weight.raw_data)
            if hollow and length >= HOLLOW_BYTES:
                longest = max(longest, length)
                weight = _hollow(weight, Path(zeros.name).name, length)
            graph.initializer.append(weight)
        zeros.truncate(longest)
        file.write(probe.SerializeToString())
        file.flush()
        session = ort.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
    return {port.name: port.type for port in (*session.get_outputs(), *session.get_inputs())}


def _hollow(weight: onnx.TensorProto, location: str, length: int) -> onnx.TensorProto:
    """A weight of the same form, whose numbers lie in a file."""
    import onnx

    made = onnx.TensorProto(name=weight.name, data_type=weight.data_type, dims=weight.dims)
    made.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", str(length))):
        made.external_data.add(key=key, value=value)
    return made


def _last_uses(graph: onnx.GraphProto, outputs: Sequence[str]) -> dict[str, int]:
    """The last node that reads each tensor; an output is read after the end."""
    last: dict[str, int] = {}
    for n, node in enumerate(graph.node):
        for name in names_read([node]):
            last[name] = n
    return last | dict.fromkeys(outputs, len(graph.node))


def names_read(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Tensors that nodes read, those of their inner graphs (If, Loop) included."""
    read: set[str] = set()
    for node in nodes:
        read.update(name for name in node.input if name)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                read.update(names_read(inner.node))
                read.update(output.name for output in inner.output)
    return read


_ELEMENT = {
    f"tensor({name})": number
    for name, number in {
        "float": 1,
        "uint8": 2,
        "int8": 3,
        "uint16": 4,
        "int16": 5,
        "int32": 6,
        "int64": 7,
        "string": 8,
        "bool": 9,
        "float16": 10,
        "double": 11,
        "uint32": 12,
        "uint64": 13,
        "bfloat16": 16,
    }.items()
}
