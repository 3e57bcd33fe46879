"""A connection to a Ray cluster, and what its workers must have in common with this process."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.core.ray_address import must_answer
from eunomia.core.version import __version__

LOCAL = "ray"  # RAY_ADDRESS, else this machine
FOUND_BY_RAY = ("auto", "local")
Stamp = tuple[str, str]  # version of this package, digest of its source


def connect(address: str = LOCAL, cpus: int | None = None) -> bool:
    """Be connected: to ``ray`` (RAY_ADDRESS, or a cluster started here), ``HOST:PORT`` or ``ray://HOST:PORT``.

    Returns whether the connection is new. Raises ConfigError.
    """
    import ray

    stamp_here()  # before workers read theirs
    if ray.is_initialized():
        return False
    quiet: Data = {"log_to_driver": False, "configure_logging": False}
    named = os.environ.get("RAY_ADDRESS", "") if address == LOCAL else address
    if named and named not in FOUND_BY_RAY:
        must_answer(named)
    try:
        if address != LOCAL:
            ray.init(address, **quiet)
        elif os.environ.get("RAY_ADDRESS"):
            ray.init(**quiet)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours tells nobody of its use
            ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = str(error).strip() or type(error).__name__
        why = why.splitlines()[-1] if "Traceback" in why else " ".join(why.split())
        raise ConfigError(
            f"no Ray cluster answers at '{named or address}': {why[:300].rstrip('.')}; give ray, HOST:PORT or ray://HOST:PORT"
        ) from None
    return True


@functools.cache
def stamp_here() -> Stamp:
    """What a worker must have as well: same source, same results. Read once, as this process and its workers do."""
    digest, folder = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return __version__, digest.hexdigest()[:12]
