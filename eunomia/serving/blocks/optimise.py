"""One network, optimised whole by ONNX Runtime and kept on disk for this processor."""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from eunomia.core.errors import ModelError

if TYPE_CHECKING:
    import onnx

MAX_MODEL_BYTES = 2 * 1024**3 - 1  # what one protobuf message may hold


@dataclass(frozen=True)
class Optimised:
    """The optimised graph of one network.

    ``key`` names what it depends on: the file's content, the runtime's version and the processor.
    ``model`` is an ``onnx.ModelProto`` whose nodes stand in an order in which they can run.
    """

    key: str
    model: onnx.ModelProto
    path: Path


class SessionOptions(Protocol):
    """Those of onnxruntime's options that are set somewhere."""

    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int
    graph_optimization_level: object
    optimized_model_filepath: str
    profile_file_prefix: str
    enable_profiling: bool
    enable_mem_pattern: bool

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set an option that has no attribute."""


def session_options(threads: int = 1, *, optimised: bool = False) -> SessionOptions:
    """Options of every session of the server: no spinning threads, and no second optimisation."""
    import onnxruntime as ort

    options: SessionOptions = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_DISABLE_ALL if optimised else level.ORT_ENABLE_ALL
    return options


def optimise(path: str | Path, cache_dir: str | Path) -> Optimised:
    """Optimise a network once per (content, runtime version, processor); later calls read the result.

    The result holds layouts and fused kernels for this processor, so it is never shipped. The file
    appears in one step. Raises ModelError for a file that ONNX Runtime refuses.
    """
    import onnx

    source = Path(path)
    key = content_key(source)
    target = Path(cache_dir) / f"{key}.onnx"
    if not target.exists():
        _optimise_to(source, target)
    try:
        model = onnx.load(str(target))
    except Exception:  # a damaged cache entry is made again; protobuf has no common base for its errors
        target.unlink(missing_ok=True)
        _optimise_to(source, target)
        model = onnx.load(str(target))
    return Optimised(key, model, target)


def content_key(path: Path) -> str:
    """Hash of the file, of the runtime's version and of the processor's abilities."""
    import onnxruntime as ort

    try:
        size = path.stat().st_size
        if size > MAX_MODEL_BYTES:
            raise ModelError(f"{path}: {size} bytes; a network file may hold at most {MAX_MODEL_BYTES}")
        digest = hashlib.sha256(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    digest.update(f"{ort.__version__}|{processor()}".encode())
    return digest.hexdigest()[:40]


@cache
def processor() -> str:
    """Name and abilities of the processor, as the system states them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features")
    return "|".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def _optimise_to(source: Path, target: Path) -> None:
    import onnxruntime as ort

    target.parent.mkdir(parents=True, exist_ok=True)
    stage = target.with_name(f".{target.name}.{os.getpid()}")
    options = session_options()
    options.optimized_model_filepath = str(stage)
    try:
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
        os.replace(stage, target)
    except OSError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        stage.unlink(missing_ok=True)
        raise ModelError(f"{source}: ONNX Runtime refuses it: {str(error).strip().splitlines()[0]}") from None
