"""Behind KServe: a runtime for its InferenceServices, one network each, downloaded by KServe to /mnt/models."""

from __future__ import annotations

from eunomia.core.data import Json
from eunomia.engines.deploy.kubernetes import LOCKED_DOWN, USER
from eunomia.engines.deploy.plan import CACHE, Deployment, Files
from eunomia.engines.deploy.text import documents

SERVER_TOML = """\
host = "0.0.0.0"
http_port = 8080
grpc_port = 9000
anonymous = true    # KServe's own gateway decides who may call; tenants are told apart by their header

[[device]]
name = "cpu"

[[network]]
name = "model"    # KServe gives the name, see the arguments of the runtime
onnx = "/mnt/models/model.onnx"

[[tenant]]
name = "default"
"""


def render(plan: Deployment) -> Files:
    """``kserve/runtime.yaml``, and ``kserve/service.yaml`` as an example."""
    return {
        "kserve/runtime.yaml": documents(runtime(plan)),
        "kserve/service.yaml": documents([SERVICE]),
    }


def runtime(plan: Deployment) -> list[Json]:
    """The ServingRuntime and its server file."""
    container = {
        "name": "kserve-container",
        "image": plan.image,
        "workingDir": "/tmp",
        "command": ["eunomia", "serve", "/etc/eunomia/server.toml"],
        "args": ["--set", "network.model.name={{.Name}}"],
        "env": [{"name": "XDG_CACHE_HOME", "value": CACHE}],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 8080}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": plan.cpus, "memory": f"{plan.memory_mib + plan.shared_mib}Mi"}},
        "securityContext": {**LOCKED_DOWN, "runAsNonRoot": True, "runAsUser": USER},
        "volumeMounts": [
            {"name": "server", "mountPath": "/etc/eunomia", "readOnly": True},
            {"name": "cache", "mountPath": CACHE},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "eunomia-kserve"},
            "data": {"server.toml": SERVER_TOML},
        },
        {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ServingRuntime",
            "metadata": {"name": "eunomia"},
            "spec": {
                "annotations": {"prometheus.kserve.io/port": "8080", "prometheus.kserve.io/path": "/metrics"},
                "supportedModelFormats": [{"name": "onnx", "version": "1", "autoSelect": True}],
                "protocolVersions": ["v2", "grpc-v2"],
                "containers": [container],
                "volumes": [
                    {"name": "server", "configMap": {"name": "eunomia-kserve"}},
                    {"name": "cache", "emptyDir": {}},
                    {"name": "tmp", "emptyDir": {}},
                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{plan.shared_mib}Mi"}},
                ],
            },
        },
    ]


SERVICE: Json = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "mobilenet"},
    "spec": {
        "predictor": {
            "model": {
                "modelFormat": {"name": "onnx"},
                "protocolVersion": "v2",
                "runtime": "eunomia",
                "storageUri": "pvc://models/mobilenet",
            }
        }
    },
}
