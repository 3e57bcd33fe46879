"""Running Slurm's commands."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from eunomia.core.errors import ConfigError

PATIENCE_S = 60.0


def ask(command: Sequence[str], patience_s: float = PATIENCE_S, *, instead: str = "") -> str:
    """What it prints. Raises ConfigError where it is not installed, does not answer, or fails.

    ``instead``: what else helps where it is not installed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s)
    except FileNotFoundError:
        raise ConfigError(
            f"'{command[0]}' is not installed here; Debian: apt-get install slurm-client{instead}"
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"'{command[0]}' gave no answer in {patience_s:.0f} s; is slurmctld up?") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no reason given"]
        raise ConfigError(f"'{' '.join(command)}' failed: {said[0][:200]}")
    return done.stdout
