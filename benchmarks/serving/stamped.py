"""``eunomia`` with a clock at the doors of the functions that a request passes: nothing of it is in the product.

Each stamp is a name, seconds of the monotonic clock, and seconds for which the front end's thread has run (None for a
device's). They go to the file named by ``$STAMPS`` at the end.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import time
import tomllib
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

POINTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
found: list[tuple[str, float, float | None]] = []


def stamped(name: str, function: Callable[..., Any], at_end: bool) -> Callable[..., Any]:
    """The same function, with a stamp at its call or at its end."""

    @wraps(function)
    def early(*given: Any, **named: Any) -> Any:
        found.append((name, time.monotonic(), time.thread_time()))
        return function(*given, **named)

    @wraps(function)
    def late(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        finally:
            found.append((name, time.monotonic(), time.thread_time()))

    return late if at_end else early


def place(name: str, point: str) -> None:
    """Put one stamp into its module or class."""
    module, _, path = point.lstrip(">").partition(":")
    *owners, last = path.split(".")
    owner = importlib.import_module(module)
    for one in owners:
        owner = getattr(owner, one)
    setattr(owner, last, stamped(name, getattr(owner, last), point.startswith(">")))


def watch_devices() -> None:
    """What a device says of its own times."""
    from eunomia.serving.devices.execution import Execution

    ended = Execution._on_end

    def on_end(self: Execution, device: int, message: dict[str, Any]) -> None:
        span_s, ends_s = message.get("span_s", [0.0, 0.0]), message.get("ends_s", [0.0])
        names = ("device has it", "blocks begin", "blocks end", "device is through")
        stamps = span_s[0], ends_s[0], ends_s[-1], span_s[1]
        found.extend((name, stamp_s, None) for name, stamp_s in zip(names, stamps, strict=True))
        ended(self, device, message)

    Execution._on_end = on_end  # type: ignore[method-assign]


def main() -> None:
    """The command line of ``eunomia``."""
    from eunomia.cli.main import main as run

    for name, point in POINTS.items():
        place(name, point)
    watch_devices()
    atexit.register(lambda: Path(os.environ["STAMPS"]).write_text(json.dumps(found)))
    run()


if __name__ == "__main__":
    main()
