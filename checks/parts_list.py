"""The parts of the wheel's environment as CycloneDX (SBOM), from a lock file: names, versions, hashes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from eunomia.core.version import __version__

PART = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)(?P<rest>(?:[^\n]*\\\n)*[^\n]*)",
    re.MULTILINE,
)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def bill_of_materials(lock: Path) -> str:
    """One component per line of the lock file; the same lock gives the same text."""
    parts = [_part(found) for found in PART.finditer(lock.read_text(encoding="utf-8"))]
    own = {
        "type": "application",
        "name": "eunomia",
        "version": __version__,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
    }
    return json.dumps(content, indent=1) + "\n"


def _part(found: re.Match[str]) -> dict[str, object]:
    name, version = found["name"].lower(), found["version"]
    hashes = [{"alg": "SHA-256", "content": text} for text in HASH.findall(found["rest"])]
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "hashes": hashes,
    }
