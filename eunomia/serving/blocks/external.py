"""Weights that lie in files of their own beside an ONNX file, as exporters write them by default.

A network of more than ``EMBEDDED_BYTES`` keeps them outside in the cache, too: one protobuf message holds 2 GiB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.filled import fill

if TYPE_CHECKING:
    import onnx

MAX_MODEL_BYTES = 2 * 1024**3 - 1  # what one protobuf message may hold
EMBEDDED_BYTES = 1024**3  # with its weights; optimisation makes some networks larger
OUTSIDE = "session.optimized_model_external_initializers"
MODELS_DIR = "EUNOMIA_MODELS_DIR"  # in the environment of a device's process


def weight_files(path: Path) -> list[Path]:
    """Files beside a network that hold weights of it, in order of name.

    Raises ModelError for one that is missing, or lies outside the network's folder. A link may also lead to another
    place in models_dir. Where the network's file is a link too, as in a snapshot of Hugging Face, others may lead to
    the same folder. Those files must have its owner. Else whoever may put links there would read any file of the
    server's user.
    """
    import onnx

    content = _read(path)
    if b"location" not in content:  # the key under which an ONNX file names another one
        return []
    try:
        graph = onnx.load_from_string(content)
    except Exception:  # protobuf's errors share no base; the runtime says better what is wrong
        return []
    names = {entry.value for t in _tensors(graph) for entry in t.external_data if entry.key == "location"}
    found = []
    for name in sorted(names):
        inside = os.path.normpath(name)
        if os.path.isabs(inside) or inside.split(os.sep)[0] == "..":
            raise ModelError(
                f"{path.name} has weights in '{name}', outside its folder: put the file beside it, and export again"
            )
        if not (path.parent / inside).is_file():
            raise ModelError(f"{path.name} has weights in '{name}', which is missing: put the file beside it")
        if not _stays(path, target := (path.parent / inside).resolve()):
            raise ModelError(
                f"{path.name} has weights in '{name}', a link to {target}: links may not lead out of models_dir, or of "
                "the folder of a [[network]]; put the file itself there, or a hard link to it"
            )
        found.append(path.parent / inside)
    return found


def environment_of(models: Path | None) -> dict[str, str]:
    """By which the process of a device knows within which folder links may lead from network to network."""
    return {MODELS_DIR: "" if models is None else str(models.resolve())}


def _stays(path: Path, target: Path) -> bool:
    models = os.environ.get(MODELS_DIR)
    if target.is_relative_to(path.parent.resolve()) or (models and target.is_relative_to(models)):
        return True
    real = path.resolve()
    return path.is_symlink() and target.parent == real.parent and target.stat().st_uid == real.stat().st_uid


def check_size(path: Path) -> None:
    """Raise ModelError for a file that no protobuf message can be."""
    if (size := path.stat().st_size) > MAX_MODEL_BYTES:
        raise ModelError(
            f"{path}: {size} bytes in one file; at most {MAX_MODEL_BYTES} are taken: export with external data"
        )


def keeps_outside(path: Path) -> bool:
    """Whether its optimised form has its weights in a file of their own."""
    return sum(file.stat().st_size for file in (path, *weight_files(path))) > EMBEDDED_BYTES


def outside_file(target: Path) -> Path:
    """Where the weights of an optimised network lie that holds none itself."""
    return target.with_suffix(".weights")


def session_source(path: Path) -> str | bytes:
    """What onnxruntime loads a network from, so that its optimised form holds all weights: the path, or the bytes."""
    import onnx

    if not weight_files(path) or keeps_outside(path):
        return str(path)
    graph = onnx.load_from_string(_read(path))
    try:
        fill(path.name, path.parent, _tensors(graph), MAX_MODEL_BYTES)
        return bytes(graph.SerializeToString())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path.name}: its weights cannot be read: {str(error).splitlines()[0]}") from None


def _read(path: Path) -> bytes:
    check_size(path)
    return path.read_bytes()


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a network that may lie outside, those of inner graphs included."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterator[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _of_graph(inner)
