"""Which networks of a folder are loaded, kept on disk: a server that starts again loads them again.

``[[network]]`` entries are not kept: the server's file says at each start that they are loaded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.serving.models.folder import NAME

log = logging.getLogger("eunomia.serving")
FORMAT = 1


class Remembered:
    """A file in the cache, one for each address and folder of networks: servers may share a cache."""

    def __init__(self, cache: Path, address: str, models: Path | None) -> None:
        """``models``: without a folder nothing is kept."""
        whose = f"{address} {os.path.abspath(models or cache)}".encode(errors="surrogateescape")
        self.path = cache / f"loaded-{hashlib.sha256(whose).hexdigest()[:16]}.json"
        self._none = models is None

    def read(self) -> dict[str, list[str]]:
        """Versions by name. A file that cannot be read counts as none, with a line in the log."""
        if self._none or not self.path.exists():
            return {}
        try:
            loaded = json.loads(self.path.read_text(encoding="utf-8"))["loaded"]
            return {name: [str(int(v)) for v in loaded[name]] for name in loaded if NAME.fullmatch(name)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("%s cannot be read: %s; networks of models_dir must be loaded again", self.path, error)
            return {}

    def write(self, loaded: Mapping[str, Sequence[str]]) -> None:
        """Replace it in one step; raises OutputError."""
        write_text(self.path, json.dumps({"format": FORMAT, "loaded": loaded}, indent=1) + "\n")
