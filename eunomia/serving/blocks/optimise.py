"""One network, optimised whole by ONNX Runtime and kept on disk for this processor."""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.external import OUTSIDE, keeps_outside, outside_file, session_source, weight_files
from eunomia.serving.blocks.refusal import refusal

if TYPE_CHECKING:
    import onnx
PIECE = 2**20  # bytes that are hashed at a time
SCRATCH = "scratch-"  # how names in the cache begin of what is not whole yet, or stays for a moment
FATAL = 4  # severity of ONNX Runtime's log


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

    ort.set_default_logger_severity(FATAL)  # what no session owns, such as a size of memory that overflows
    options: SessionOptions = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = (
        FATAL  # errors come as exceptions; as lines of the log, a client could write there
    )
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_DISABLE_ALL if optimised else level.ORT_ENABLE_ALL
    return options


def optimise(path: str | Path, cache_dir: str | Path, *, basic: bool = False) -> Optimised:
    """Optimise a network once per (content, runtime version, processor); later calls read the result.

    ``basic``: only as far as no device matters. The result holds layouts and fused kernels for this processor, so it is
    never shipped. The file appears in one step. Raises ModelError for a file that ONNX Runtime refuses.
    """
    import onnx

    source = Path(path)
    content = content_key(source)
    key = content + "-basic" * basic
    target = Path(cache_dir) / f"{key}.onnx"
    if not target.exists():
        _optimise_to(source, target, content, basic)
    try:
        model = onnx.load(str(target), load_external_data=False)
    except Exception:  # a damaged cache entry is made again; protobuf has no common base for its errors
        target.unlink(missing_ok=True)
        _optimise_to(source, target, content, basic)
        model = onnx.load(str(target), load_external_data=False)
    return Optimised(key, model, target)


def content_key(path: Path) -> str:
    """Hash of the file, of its weights in other files, of the runtime's version and of the processor's abilities."""
    import onnxruntime as ort

    digest = hashlib.sha256()
    if path.exists() and not path.is_file():  # nobody may ever write to a pipe, and a device has no end
        raise ModelError(f"{path}: cannot be read: it is no regular file")
    try:
        files = (path, *weight_files(path))
        _must_fit(path, sum(file.stat().st_size for file in files))
        for file in files:
            digest.update(file.name.encode() if file != path else b"")
            with file.open("rb") as content:
                while piece := content.read(PIECE):
                    digest.update(piece)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    digest.update(f"{ort.__version__}|{processor()}|8".encode())
    return digest.hexdigest()[:40]


def _must_fit(path: Path, size: int) -> None:
    """Raises ModelError for more than the machine's memory, which would be read for minutes to no end."""
    from eunomia.serving.devices.memory import machine_bytes

    if size > (most := machine_bytes()) > 0:
        raise ModelError(
            f"{path}: with its weights it has {size // 2**20} MiB, and this machine {most // 2**20} MiB of memory: "
            "serve it on a larger one"
        )


@cache
def processor() -> str:
    """Name and abilities of the processor, as the system states them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features")
    return "|".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def _optimise_to(source: Path, target: Path, content: str, basic: bool) -> None:
    import onnxruntime as ort

    target.parent.mkdir(parents=True, exist_ok=True)
    options, outside = session_options(), outside_file(target)
    if basic:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=target.parent) as stage:
            options.optimized_model_filepath = str(Path(stage) / target.name)
            if keeps_outside(source):
                options.add_session_config_entry(f"{OUTSIDE}_file_name", outside.name)
                options.add_session_config_entry(f"{OUTSIDE}_min_size_in_bytes", "1024")
            try:
                made = ort.InferenceSession(
                    session_source(source), options, providers=["CPUExecutionProvider"]
                )
            except Exception:
                # The runtime does not say that a disk is full: this does.
                (Path(stage) / "room").write_bytes(bytes(PIECE))
                raise
            ports = (*made.get_inputs(), *made.get_overridable_initializers())
            _tidy(Path(stage) / target.name, {port.name for port in ports})
            if content_key(source) != content:
                raise ModelError(f"{source}: it has changed while it was read; load it again")
            for file in (outside, target):  # whoever finds the network finds its weights
                if (Path(stage) / file.name).exists():
                    os.replace(Path(stage) / file.name, file)
    except (OSError, ModelError):
        raise
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        raise ModelError(f"{source}: {refusal(source, error)}") from None


def _tidy(path: Path, wanted: set[str]) -> None:
    """Each output stands there once, and no input that nobody gives.

    Up to format 3, weights are inputs too; where the runtime folds them, it leaves inputs without a value behind.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    surplus = [port for port in model.graph.input if port.name not in wanted]
    for port in surplus:
        model.graph.input.remove(port)
    names = [port.name for port in model.graph.output]
    again = [n for n, name in enumerate(names) if name in names[:n]]
    for n in reversed(again):
        del model.graph.output[n]
    if surplus:
        model.ir_version = max(model.ir_version, 4)  # from here on, a weight need not be an input
    if surplus or again:
        onnx.save(model, str(path))
