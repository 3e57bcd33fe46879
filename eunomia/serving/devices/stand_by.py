"""The process that stands by: as the worker, but its start and its loads come after all other work of their core.

Started with the words of ``worker``. Threads that import and load come last, and one of ONNX Runtime's own.
The one that runs networks never does, as no thread may take that back without a privilege.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading

from eunomia.core.workers import leave_signals_to_the_server
from eunomia.serving.devices.priority import come_last, end_first


def _prepare(cores: str) -> None:
    come_last()
    if cores:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    with contextlib.suppress(ImportError):  # the worker says so
        import onnxruntime  # noqa: F401

        import eunomia.serving.devices.worker  # noqa: F401


def main(arguments: list[str]) -> None:
    """Entry point of the process."""
    leave_signals_to_the_server()
    end_first()
    first = threading.Thread(target=_prepare, args=arguments[3:4])
    first.start()
    first.join()
    from eunomia.serving.devices.worker import main as serve

    serve(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
