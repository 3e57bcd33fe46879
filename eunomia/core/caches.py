"""Where what can be made again is kept."""

from __future__ import annotations

import os
from pathlib import Path

NOWHERE = Path(os.devnull) / "cache"  # nothing can be written there


def cache_home() -> Path:
    """$XDG_CACHE_HOME, else ~/.cache; a user without a home, as in a container, has none that can be written."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return NOWHERE
