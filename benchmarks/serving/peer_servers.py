"""Other servers with the same two networks, each from a virtual environment of its own.

``FOLDER/triton``: ``pip install --no-deps nvidia-pytriton==0.7.0; pip install "numpy<2" onnxruntime`` (glibc >= 2.35,
Python 3.11); the wheel carries Triton 2.51 with its Python backend alone, so ``triton_backend.sh`` compiles its native
backend for that very ONNX Runtime. ``FOLDER/mlserver``: ``pip install mlserver==1.7.1 "uvloop<0.22" onnxruntime``.
``FOLDER/ray``: ``pip install "ray[serve]==2.60.0" "tritonclient[grpc]" "grpcio-reflection==1.75.1" onnxruntime``.
ONNX Runtime has the version of this environment everywhere. All compute on the device's core, in one process per
network or one for both, and take requests on the other core.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.serving.live import CACHE, NETWORKS
from benchmarks.serving.load import IMAGE
from benchmarks.serving.machine import cores
from eunomia.serving.models.builtin import builtin_file

START_S = 240.0  # of one busy core; alone they take 5 to 15 s

SESSION = """
import os
import numpy as np

def session(path, core):
    import onnxruntime as ort
    os.sched_setaffinity(0, {core})
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
"""

TRITON = """
name: "{name}"
backend: "onnxruntime"
max_batch_size: 1
input [{{ name: "image" data_type: TYPE_FP32 dims: [3, 224, 224] }}]
output [{{ name: "logits" data_type: TYPE_FP32 dims: [1000] }}]
instance_group [{{ kind: KIND_CPU count: 1 {limit} }}]
parameters [{{ key: "intra_op_thread_count" value {{ string_value: "1" }} }},
            {{ key: "inter_op_thread_count" value {{ string_value: "1" }} }}]
dynamic_batching {{
  priority_levels: 2 default_priority_level: 2
  default_queue_policy {{ timeout_action: REJECT allow_timeout_override: true }}
}}
"""
LIMIT = 'rate_limiter { resources [{ name: "core" global: true count: 1 }] }'  # one network at a time

MLSERVER = """
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
{session}

class Network(MLModel):
    async def load(self):
        self.session = session(self.settings.parameters.uri, {core})
        return True

    async def predict(self, payload):
        image = NumpyCodec.decode_input(payload.inputs[0])
        out = self.session.run(None, {{"image": image}})[0]
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("logits", out)])
"""

RAY = """
import sys, time
import numpy as np
import ray
from ray import serve
from ray.serve.config import gRPCOptions, HTTPOptions
from tritonclient.grpc import service_pb2 as pb
{session}

@serve.deployment(num_replicas=1, max_ongoing_requests=100, ray_actor_options={{"num_cpus": 0.1}})
class Network:
    def __init__(self, path):
        self.session = session(path, {core})

    def ModelMetadata(self, request):
        port = pb.ModelMetadataResponse.TensorMetadata
        image = port(name="image", datatype="FP32", shape=[-1, 3, 224, 224])
        return pb.ModelMetadataResponse(name=request.name, inputs=[image])

    def ModelInfer(self, request):
        image = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(list(request.inputs[0].shape))
        out = self.session.run(None, {{"image": image}})[0]
        answer = pb.ModelInferResponse(model_name=request.model_name)
        answer.outputs.add(name="logits", datatype="FP32", shape=out.shape)
        answer.raw_output_contents.append(out.tobytes())
        return answer

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
functions = ["tritonclient.grpc.service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server"]
options = gRPCOptions(port={port}, grpc_servicer_functions=functions)
serve.start(grpc_options=options, http_options=HTTPOptions(port={http}))
for name, path in {paths!r}.items():
    serve.run(Network.bind(path), name=name, route_prefix="/" + name)
print("ready", flush=True)
while True:
    time.sleep(1)
"""


@dataclass
class Peer:
    """A running server: where its gRPC is, and what a request needs beside the stock ones."""

    name: str
    url: str
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by network


def free_port() -> int:
    """Some port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def networks() -> dict[str, str]:
    """The files that every server gets."""
    return {name: str(builtin_file(name, CACHE)) for name in NETWORKS}


@contextlib.contextmanager
def triton(environment: Path, limited: bool = False) -> Iterator[Peer]:
    """Triton from the wheel, both networks in its process; ``limited``: its rate limiter runs one at a time."""
    packages = next((environment / "lib").glob("python3*")) / "site-packages"
    with tempfile.TemporaryDirectory() as name:
        folder, port, core = Path(name), free_port(), cores().device
        for model, path in networks().items():
            home = folder / model / "1"
            home.mkdir(parents=True)
            shutil.copy(path, home / "model.onnx")
            (home.parent / "config.pbtxt").write_text(TRITON.format(name=model, limit=LIMIT * limited))
        command = [
            str(packages / "pytriton" / "tritonserver" / "bin" / "tritonserver"), "--model-repository", str(folder),
            "--backend-directory", str(environment / "backends"), "--host-policy", f"cpu,cpu-cores={core}-{core}",
            "--grpc-port", str(port), "--http-port", str(free_port()), "--metrics-port", str(free_port()),
            "--grpc-address", "127.0.0.1", "--http-address", "127.0.0.1", *("--rate-limit=execution_count",) * limited,
        ]  # fmt: skip
        libraries = f"{packages / 'nvidia_pytriton.libs'}:{_base_prefix(environment)}/lib"
        extra = {"LD_LIBRARY_PATH": libraries, "PYTHONHOME": str(_base_prefix(environment))}
        with _running(command, folder, cores().front, extra):
            yield _ready(Peer("Triton 2.51", f"127.0.0.1:{port}"))


@contextlib.contextmanager
def mlserver(environment: Path) -> Iterator[Peer]:
    """MLServer with one worker process for both networks."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        (folder / "runtime.py").write_text(MLSERVER.format(session=SESSION, core=cores().device))
        settings = {"parallel_workers": 1, "grpc_port": port, "http_port": free_port(), "metrics_port": free_port(),
                    "host": "127.0.0.1", "grpc_max_message_length": 64 * 1024**2}  # fmt: skip
        (folder / "settings.json").write_text(json.dumps(settings))
        for model, path in networks().items():
            (folder / model).mkdir()
            (folder / model / "model-settings.json").write_text(json.dumps({
                "name": model, "implementation": "runtime.Network", "parameters": {"uri": path},
                "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 3, 224, 224]}],
            }))  # fmt: skip
        command = [str(environment / "bin" / "mlserver"), "start", str(folder)]
        with _running(command, folder, cores().front, {"PYTHONPATH": str(folder)}):
            yield _ready(Peer("MLServer 1.7.1", f"127.0.0.1:{port}"))


@contextlib.contextmanager
def ray(environment: Path) -> Iterator[Peer]:
    """Ray Serve with one replica per network, through its gRPC proxy."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        facts = {"core": cores().device, "port": port, "http": free_port(), "paths": networks()}
        (folder / "application.py").write_text(RAY.format(session=SESSION, **facts))
        # The generated messages say that they come from this module, and Ray pickles them.
        (folder / "grpc_service_pb2.py").write_text("from tritonclient.grpc.service_pb2 import *\n")
        command = [str(environment / "bin" / "python"), "application.py"]
        extra = {"PYTHONPATH": str(folder), "RAY_AUTH_MODE": "disabled"}
        extra["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] = (
            "90"  # of 5: its proxy starts slowly on one busy core
        )
        with _running(command, folder, cores().front, extra):
            headers = {model: {"application": model} for model in NETWORKS}
            yield _ready(Peer("Ray Serve 2.60", f"127.0.0.1:{port}", headers))


# title -> folder of its environment, and how it is started
PEERS: dict[str, tuple[str, Callable[[Path], contextlib.AbstractContextManager[Peer]]]] = {
    "Triton 2.51": ("triton", triton),
    "Triton 2.51, rate limiter": ("triton", partial(triton, limited=True)),
    "MLServer 1.7.1": ("mlserver", mlserver),
    "Ray Serve 2.60": ("ray", ray),
}


@contextlib.contextmanager
def _running(command: list[str], folder: Path, core: int, extra: Mapping[str, str]) -> Iterator[None]:
    """The process and all that it starts, as a group of its own, ended after the block."""
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}, **extra}
    log = folder / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )  # fmt: skip
    try:
        yield
    except TimeoutError as error:
        raise RuntimeError(f"{error}; its log ends: {log.read_text(errors='replace')[-1500:]}") from None
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10.0)


def _ready(peer: Peer) -> Peer:
    """Wait until both networks answer with their metadata."""
    import tritonclient.grpc as module

    client = module.InferenceServerClient(peer.url)
    image = module.InferInput("image", list(IMAGE.shape), "FP32")
    image.set_data_from_numpy(IMAGE)
    began = time.monotonic()
    for model in NETWORKS:
        while True:
            try:
                headers = dict(peer.headers.get(model, {}))
                client.get_model_metadata(model, headers=headers, client_timeout=5.0)
                client.infer(model, [image], headers=headers, client_timeout=30.0)
                break
            except module.InferenceServerException as error:
                if time.monotonic() - began > START_S:
                    raise TimeoutError(f"{peer.name} did not start within {START_S:.0f} s: {error}") from None
                time.sleep(0.5)
    client.close()
    return peer


def _base_prefix(environment: Path) -> Path:
    """Where the interpreter of a virtual environment comes from."""
    command = [str(environment / "bin" / "python"), "-c", "import sys; print(sys.base_prefix)"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
