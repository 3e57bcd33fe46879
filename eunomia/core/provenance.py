"""Where a result comes from: commit, versions of packages, machine. For the manifest."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from eunomia.core.version import __version__


def environment() -> dict[str, Any]:
    """Commit, versions and machine, for the manifest; ``commit`` is None outside a git checkout."""
    versions = {"python": platform.python_version()}
    for package in ("eunomia", "numpy", "numba", "pyarrow", "onnx"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    if "eunomia" not in versions:
        versions["eunomia"] = __version__
    machine = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }
    return {"commit": _commit(), "versions": versions, "machine": machine, "command": sys.argv[1:]}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str | None:
    """Commit of the checkout that holds this very file, with '+' when tracked files were changed."""
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=5).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        head = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")
