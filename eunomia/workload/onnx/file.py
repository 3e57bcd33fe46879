"""Open an ONNX file without trusting it: bounded size, no other file is touched, one error per fault."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from eunomia.core.errors import ModelError

LIMIT_BYTES = 2**31 - 1  # no protobuf message can be larger; bigger networks keep weights in other files
LIMIT_NODES = 200_000


def load_model(path: Path) -> onnx.ModelProto:
    """The file as a message, functions of its own inlined, weights in other files left where they are.

    Raises ModelError for a missing, empty, too large, malformed or layerless file.
    """
    model = _parse(_read(path))
    if not model.graph.node:
        raise ModelError("it holds no network: its graph has no nodes; is it an ONNX file?")
    if not model.opset_import:
        raise ModelError("it does not say which operator set it uses; it is not a complete ONNX model")
    if len(model.graph.node) > LIMIT_NODES:
        raise ModelError(f"it has {len(model.graph.node)} nodes; at most {LIMIT_NODES} are read")
    if model.functions:
        model = _inline(model)
    return model


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ModelError("it is a directory, not an ONNX file")
        size = path.stat().st_size
        if size == 0:
            raise ModelError("it is empty (0 bytes), not an ONNX file")
        if size > LIMIT_BYTES:
            raise ModelError(
                f"it has {size} bytes; an ONNX file has at most {LIMIT_BYTES}, "
                "larger networks must be saved with external data"
            )
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"cannot be read: {error.strerror or error}; give the path of an ONNX file"
        ) from error


def _parse(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError, ValueError) as error:
        raise ModelError(f"it is not an ONNX file: {error}; export the network again") from error
    return model


def _inline(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnx.inliner import inline_local_functions

    try:
        return inline_local_functions(model)
    except Exception as error:  # the library raises bare RuntimeError and others for malformed functions
        raise ModelError(f"its functions cannot be inlined: {error}") from error
