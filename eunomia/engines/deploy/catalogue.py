"""What can be rendered, by name."""

from __future__ import annotations

import importlib

from eunomia.core.errors import UnknownNameError
from eunomia.engines.deploy.plan import Deployment, Files, Renderer

RENDERERS: dict[str, str] = {
    "image": "eunomia.engines.deploy.image",
    "kubernetes": "eunomia.engines.deploy.kubernetes",
    "helm": "eunomia.engines.deploy.helm",
    "haproxy": "eunomia.engines.deploy.proxy",
    "watching": "eunomia.engines.deploy.watching",
    "kserve": "eunomia.engines.deploy.kserve",
    "kuberay": "eunomia.engines.deploy.kuberay",
}


def render(plan: Deployment, only: list[str] | None = None) -> Files:
    """All files of a plan, or of some kinds; the same text for the same plan. Raises UnknownNameError."""
    files: Files = {}
    for name in only or list(RENDERERS):
        if name not in RENDERERS:
            raise UnknownNameError("kind of deployment", name, list(RENDERERS))
        renderer: Renderer = importlib.import_module(RENDERERS[name]).render
        files.update(renderer(plan))
    return files
