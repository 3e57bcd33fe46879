"""Plain manifests: replicas of the server, their PostgreSQL, and who may reach whom."""

from __future__ import annotations

import hashlib

from eunomia.core.data import Json
from eunomia.engines.deploy.plan import (
    BRACES,
    CACHE,
    COMMAND,
    GRPC_PORT,
    HOME,
    HTTP_PORT,
    POSTGRES_PORT,
    Deployment,
    Files,
)
from eunomia.engines.deploy.text import documents

Labels = dict[str, str]
SERVER, POSTGRES = {"app.kubernetes.io/name": "eunomia"}, {"app.kubernetes.io/name": "eunomia-postgres"}
USER = 10_001
POSTGRES_USER = 10_002
DNS_PORTS = (53, 5353)  # a policy counts the port of the pod behind the name service: OpenShift's has 5353
LOCKED_DOWN = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def render(plan: Deployment) -> Files:
    """``kubernetes/*.yaml``; apply them after the secret of the database has been made (see README)."""
    return {
        "kubernetes/postgres.yaml": documents(postgres(plan)),
        "kubernetes/server.yaml": documents(server(plan)),
        "kubernetes/network.yaml": documents(network(plan)),
        "kubernetes/README.md": README,
    }


README = """\
Make the images, the secret and the objects, in this order:

    podman build -t localhost/eunomia:latest -f image/Containerfile .
    podman build -t localhost/eunomia-postgres:latest -f image/Containerfile.postgres image
    kubectl create secret generic eunomia-postgres --from-literal=password="$(openssl rand -hex 24)"
    kubectl apply -f kubernetes/

Push the images to a registry of yours, and name them with --image and --postgres-image.
"""


def server(plan: Deployment) -> list[Json]:
    """Configuration, services, replicas and their disruption budget."""
    labels = {
        "metadata": {
            "labels": SERVER,
            "annotations": {"checksum/server": _hash(plan.server_toml.replace(BRACES, "{{"))},
        }
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _named("eunomia", SERVER),
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _named("eunomia", SERVER),
            "data": {"server.toml": plan.server_toml},
        },
        _service("eunomia", SERVER, {"http": HTTP_PORT, "grpc": GRPC_PORT}),
        _service("eunomia-replicas", SERVER, {"http": HTTP_PORT}, headless=True),
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": _named("eunomia", SERVER),
            "spec": {
                "replicas": plan.replicas,
                "serviceName": "eunomia-replicas",
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": SERVER},
                "template": {**labels, "spec": _server_pod(plan)},
                "volumeClaimTemplates": [_claim("state", plan)],
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": _named("eunomia", SERVER),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": SERVER}},
        },
    ]


def _server_pod(plan: Deployment) -> Json:
    return {
        "serviceAccountName": "eunomia",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": int(plan.drain_s) + 20,
        "securityContext": _unprivileged(USER),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": SERVER},
            },
        ],
        "containers": [server_container(plan)],
        "volumes": [
            {"name": "server", "configMap": {"name": "eunomia"}},
            {"name": "cache", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{plan.shared_mib}Mi"}},
        ],
    }


def server_container(plan: Deployment) -> Json:
    """The server: only its state, caches, /tmp and shared memory can be written."""
    memory = f"{plan.memory_mib + plan.shared_mib}Mi"
    amounts: Json = {"cpu": plan.cpus, "memory": memory}
    if plan.gpus:
        amounts["nvidia.com/gpu"] = plan.gpus
    return {
        "name": "eunomia",
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(COMMAND),
        "workingDir": HOME,
        "ports": [{"name": "http", "containerPort": HTTP_PORT}, {"name": "grpc", "containerPort": GRPC_PORT}],
        "env": [
            {
                "name": "PGPASSWORD",
                "valueFrom": {"secretKeyRef": {"name": "eunomia-postgres", "key": "password"}},
            },
            {"name": "XDG_CACHE_HOME", "value": CACHE},
        ],
        "startupProbe": _probe("/v2/health/live", every_s=2, failures=150),
        "livenessProbe": _probe("/v2/health/live", every_s=10, failures=3),
        "readinessProbe": _probe("/v2/health/ready", every_s=2, failures=2),
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": LOCKED_DOWN,
        "volumeMounts": [
            {"name": "state", "mountPath": HOME},
            {
                "name": "server",
                "mountPath": f"{HOME}/server.toml",
                "subPath": "server.toml",
                "readOnly": True,
            },
            {"name": "cache", "mountPath": CACHE},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def postgres(plan: Deployment) -> list[Json]:
    """One PostgreSQL with a disk of its own. Replicas go on without it (docs/beyond.md)."""
    ready = {"exec": {"command": ["pg_isready", "-h", "127.0.0.1", "-U", "eunomia"]}, "periodSeconds": 5}
    amounts = {"cpu": 1, "memory": "512Mi"}
    container = {
        "name": "postgres",
        "image": plan.postgres_image,
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": "postgres", "containerPort": POSTGRES_PORT}],
        "env": [
            {"name": "PGDATA", "value": "/var/lib/postgresql/data"},
            {
                "name": "POSTGRES_PASSWORD",
                "valueFrom": {"secretKeyRef": {"name": "eunomia-postgres", "key": "password"}},
            },
        ],
        "readinessProbe": ready,
        "livenessProbe": {**ready, "periodSeconds": 20, "initialDelaySeconds": 30},
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": LOCKED_DOWN,
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/postgresql"},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    return [
        _service("eunomia-postgres", POSTGRES, {"postgres": POSTGRES_PORT}, headless=True),
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": _named("eunomia-postgres", POSTGRES),
            "spec": {
                "replicas": 1,
                "serviceName": "eunomia-postgres",
                "selector": {"matchLabels": POSTGRES},
                "template": {
                    "metadata": {"labels": POSTGRES},
                    "spec": {
                        "automountServiceAccountToken": False,
                        "securityContext": _unprivileged(POSTGRES_USER),
                        "containers": [container],
                        "volumes": [
                            {"name": "tmp", "emptyDir": {}},
                            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}},
                        ],
                    },
                },
                "volumeClaimTemplates": [_claim("data", plan)],
            },
        },
    ]


def network(plan: Deployment) -> list[Json]:
    """Callers reach the servers' two ports, servers the database and the name service, and nothing else goes."""
    names = [{"protocol": protocol, "port": port} for port in DNS_PORTS for protocol in ("UDP", "TCP")]
    egress: list[Json] = [
        {"to": [{"podSelector": {"matchLabels": POSTGRES}}], "ports": [_port(POSTGRES_PORT)]},
        {"ports": names},
    ]
    if plan.traces_port is not None:
        egress.append({"ports": [_port(plan.traces_port)]})
    return [
        _policy("eunomia", SERVER, [{"ports": [_port(HTTP_PORT), _port(GRPC_PORT)]}], egress),
        _policy(
            "eunomia-postgres",
            POSTGRES,
            [{"from": [{"podSelector": {"matchLabels": SERVER}}], "ports": [_port(POSTGRES_PORT)]}],
            [],
        ),
    ]


def _named(name: str, labels: Labels) -> Json:
    return {"name": name, "labels": labels}


def _service(name: str, labels: Labels, ports: dict[str, int], headless: bool = False) -> Json:
    spec: Json = {
        "selector": labels,
        "ports": [{"name": name, "port": port, "targetPort": name} for name, port in ports.items()],
    }
    if headless:
        spec["clusterIP"] = "None"
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(name, labels), "spec": spec}


def _policy(name: str, labels: Labels, ingress: list[Json], egress: list[Json]) -> Json:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _named(name, labels),
        "spec": {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _port(number: int) -> Json:
    return {"protocol": "TCP", "port": number}


def _probe(path: str, every_s: int, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": every_s,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }


def _claim(name: str, plan: Deployment) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": plan.storage}}},
    }


def _unprivileged(user: int) -> Json:
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
