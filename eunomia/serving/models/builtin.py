"""Files of the networks that are built in code, written once into the cache."""

from __future__ import annotations

from pathlib import Path

from eunomia.core.atomic import write_bytes
from eunomia.serving.models.convolutional import mobilenet_v2, resnet50

BUILDERS = {"mobilenet-v2": mobilenet_v2, "resnet50": resnet50}


def builtin_file(name: str, cache: Path) -> Path:
    """The ONNX file of a built-in network; raises KeyError for an unknown name, OutputError on a full disk."""
    path = cache / f"builtin-{name}-1.onnx"
    if not path.exists():
        write_bytes(path, BUILDERS[name]())
    return path
