"""``config.pbtxt`` of a network in a folder that was made for Triton: which of it holds here, and which does not.

Taken are the names of classes (``label_filename``), which versions are served (``version_policy``) and the shapes that
clients see (``reshape``). So are the file's name (``default_model_filename``) and, as sizes of the trial, dims without
a free axis. Clients hear ``max_batch_size``, where it is less than fits. Devices, batches and deadlines are the
server's own affair, so that what is said of those is left out, and the log names it. Networks that are none of ONNX
Runtime's, or keep something from request to request, do not load.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from eunomia.core.errors import ConfigError
from eunomia.serving.devices.strings import BYTES
from eunomia.serving.models.beside import Beside
from eunomia.serving.protocol.reshape import Reshape

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInput

log = logging.getLogger("eunomia.serving")
MOST_BYTES = 1024**2  # of a file
ONNX = ("onnxruntime_onnx", "onnxruntime", "")  # what a platform or a backend may be
SEQUENCES = "requests of a sequence share a state"
OTHER = {"ensemble_scheduling": "it is made of other networks", "sequence_batching": SEQUENCES}
TAKEN = {
    "name",
    "platform",
    "backend",
    "max_batch_size",
    "input",
    "output",
    "version_policy",
}


def with_tritons(own: Beside, place: Path | None) -> Beside:
    """``own``, of a ``config.toml`` in that place, and what Triton's file there says besides; raises ConfigError."""
    path = place.with_name("config.pbtxt") if place is not None and place.name == "config.toml" else None
    if path is None or not path.is_file():
        return own
    said = read_pbtxt(path)
    shapes, labels = {**said.shapes, **own.shapes}, {**said.labels, **own.labels}
    dims = said.dims and not own.shapes
    return replace(said, shapes=shapes, empty=own.empty, labels=labels, dims=dims, rows_apart=own.rows_apart)


def read_pbtxt(path: Path) -> Beside:
    """What holds here; raises ConfigError."""
    config = _parsed(path)
    _must_be_onnx(config)
    if left := sorted({field.name for field, _ in config.ListFields()} - _taken(config, path.parent)):
        log.warning("%s/%s: not taken: %s", path.parent.name, path.name, ", ".join(left))
    shapes = _shapes(config)
    return Beside(
        shapes,
        False,
        _labels(config, path.parent),
        *_versions(config),
        dims=bool(shapes),
        formats=_formats(config),
        reshapes=_reshapes(config),
        types=_types(config),
        most_rows=max(config.max_batch_size, 0),
    )


def _taken(config: ModelConfig, folder: Path) -> set[str]:
    """What holds here; a file's name only where the file is there (``models.folder``)."""
    name = config.default_model_filename
    there = name == "model.onnx" or any(place.name == name for place in folder.glob("[0-9]*/*.onnx"))
    return TAKEN | ({"default_model_filename"} if there else set())


def _parsed(path: Path) -> ModelConfig:
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(f"{path.name} has more than {MOST_BYTES} bytes; at most so many are read")
        config: ModelConfig = text_format.Parse(
            content.decode("utf-8-sig"), ModelConfig(), allow_unknown_field=True
        )
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}") from None
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path.name} is no configuration as Triton reads it: {error}") from None
    return config


def _must_be_onnx(config: ModelConfig) -> None:
    for key in ("platform", "backend"):
        if getattr(config, key) not in ONNX:
            raise ConfigError(
                f"config.pbtxt says {key} '{getattr(config, key)}'; networks of ONNX Runtime alone are served"
            )
    for key, why in OTHER.items():
        if config.HasField(key):
            raise ConfigError(f"config.pbtxt has {key}: {why}, which this server does not offer")
    if config.model_transaction_policy.decoupled:
        raise ConfigError(
            "config.pbtxt says decoupled: a request gets one answer here, neither more nor none"
        )


def _types(config: ModelConfig) -> dict[str, str]:
    """Of inputs and outputs, as the protocol names them."""
    from tritonclient.grpc.model_config_pb2 import DataType

    names = {
        port.name: DataType.Name(port.data_type).removeprefix("TYPE_")
        for port in (*config.input, *config.output)
        if port.data_type
    }
    return {name: BYTES if said == "STRING" else said for name, said in names.items()}


def _formats(config: ModelConfig) -> dict[str, str]:
    """``FORMAT_NCHW`` or ``FORMAT_NHWC``: clients of pictures ask for it."""
    return {port.name: port.Format.Name(port.format) for port in config.input if port.format}


def _reshapes(config: ModelConfig) -> dict[str, Reshape]:
    """Of inputs and outputs; where Triton batches, neither shape names the rows."""
    rows = (-1,) if config.max_batch_size > 0 else ()
    return {
        port.name: Reshape((*rows, *port.dims), (*rows, *port.reshape.shape))
        for port in (*config.input, *config.output)
        if port.HasField("reshape")
    }


def _versions(config: ModelConfig) -> tuple[int | None, tuple[str, ...] | None]:
    """How many of the newest, and which alone."""
    policy = config.version_policy
    match policy.WhichOneof("policy_choice"):
        case "all":
            return sys.maxsize, None
        case "latest":
            return policy.latest.num_versions or 1, None
        case "specific":
            return sys.maxsize, tuple(str(version) for version in policy.specific.versions)
        case _:
            return None, None


def _shapes(config: ModelConfig) -> dict[str, list[int]]:
    """Of inputs whose sizes are all given, as the network has them; where Triton batches, it does not name the rows."""
    rows = [1] if config.max_batch_size > 0 else []
    found = {port.name: rows + _own(port) for port in config.input if not port.allow_ragged_batch}
    return {name: shape for name, shape in found.items() if shape and min(shape) > 0}


def _own(port: ModelInput) -> list[int]:
    """Axes of the network itself."""
    return list(port.reshape.shape if port.HasField("reshape") else port.dims)


def _labels(config: ModelConfig, folder: Path) -> dict[str, str]:
    found = {port.name: port.label_filename for port in config.output if port.label_filename}
    for output, file in found.items():
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise ConfigError(
                f"config.pbtxt: label_filename '{file}' of '{output}' leads out of the network's folder"
            )
    return {output: str(folder / file) for output, file in found.items()}
