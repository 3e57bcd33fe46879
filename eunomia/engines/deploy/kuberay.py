"""A Ray cluster on Kubernetes (KubeRay), for sweeps and studies: ``--on ray://eunomia-ray-head-svc:10001``."""

from __future__ import annotations

from eunomia.core.data import Json
from eunomia.engines.deploy.kubernetes import LOCKED_DOWN, USER
from eunomia.engines.deploy.plan import Deployment, Files
from eunomia.engines.deploy.text import documents

NEEDS_RAY = "# The image needs Ray: in image/Containerfile, install /src[{}]\n"


def render(plan: Deployment) -> Files:
    """``kuberay/cluster.yaml``; the image needs the extra ``ray`` as well."""
    return {
        "kuberay/cluster.yaml": NEEDS_RAY.format(",".join((*plan.extras, "ray"))) + documents([cluster(plan)])
    }


def cluster(plan: Deployment) -> Json:
    """A head that computes nothing, and one to eight workers."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "eunomia-ray"},
        "spec": {
            "headGroupSpec": {
                "rayStartParams": {"num-cpus": "0", "dashboard-host": "127.0.0.1"},
                "template": {"spec": _pod("ray-head", plan, 1)},
            },
            "workerGroupSpecs": [
                {
                    "groupName": "workers",
                    "replicas": 2,
                    "minReplicas": 1,
                    "maxReplicas": 8,
                    "rayStartParams": {},
                    "template": {"spec": _pod("ray-worker", plan, plan.cpus)},
                }
            ],
        },
    }


def _pod(name: str, plan: Deployment, cpus: object) -> Json:
    amounts = {"cpu": cpus, "memory": "4Gi"}
    return {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER},
        "containers": [
            {
                "name": name,
                "image": plan.image,
                "resources": {"requests": amounts, "limits": amounts},
                "securityContext": LOCKED_DOWN,
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "cache", "mountPath": "/var/cache/eunomia"},
                    {"name": "shm", "mountPath": "/dev/shm"},
                ],
            }
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "cache", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
    }
