"""The same objects as a Helm chart: what clusters differ in stands in values.yaml."""

from __future__ import annotations

from dataclasses import replace

from eunomia.core.data import Data
from eunomia.core.version import __version__
from eunomia.engines.deploy import kubernetes
from eunomia.engines.deploy.plan import BRACES, Deployment, Files, Raw
from eunomia.engines.deploy.text import documents, yaml

VALUES = {
    "image": "image",
    "postgresImage": "postgres_image",
    "replicas": "replicas",
    "cpus": "cpus",
    "storage": "storage",
}


def render(plan: Deployment) -> Files:
    """``helm/eunomia``."""
    values = {name: getattr(plan, attribute) for name, attribute in VALUES.items()}
    raw: Data = {attribute: _value(name, plan) for name, attribute in VALUES.items()}
    open_ = replace(plan, **raw)
    chart = {
        "apiVersion": "v2",
        "name": "eunomia",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "description": "Eunomia: inference for many tenants, each with its promise",
    }
    mark = Raw(plan.server_toml.replace("{{", BRACES))
    parts = {"server": kubernetes.server, "postgres": kubernetes.postgres, "network": kubernetes.network}
    return {
        "helm/eunomia/Chart.yaml": yaml(chart),
        "helm/eunomia/values.yaml": yaml(values),
        **{
            f"helm/eunomia/templates/{name}.yaml": documents(part(replace(open_, server_toml=mark)))
            for name, part in parts.items()
        },
        "helm/eunomia/templates/NOTES.txt": NOTES,
    }


def _value(name: str, plan: Deployment) -> Raw:
    quoted = isinstance(getattr(plan, VALUES[name]), str)
    return Raw(f"{{{{ .Values.{name}{' | quote' if quoted else ''} }}}}")


NOTES = """\
Callers reach the servers at eunomia:8000 (HTTP) and eunomia:8001 (gRPC).
The database needs the secret eunomia-postgres with the key "password"; see kubernetes/README.md.
"""
