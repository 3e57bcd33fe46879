"""A Ray cluster: reached by its address, or started on this machine for the time."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from eunomia.core import interrupts
from eunomia.core.errors import ConfigError
from eunomia.core.ray_client import LOCAL, Stamp, connect, stamp_here

__all__ = ["LOCAL", "TRIES", "checked", "connect", "connected", "on_ray", "stamp_here"]

T = TypeVar("T")
TRIES = 3  # a cell whose worker has died so often is taken for the cause
LOOK_S = 2.0  # between two looks for Ctrl-C, and for nodes that work
NOBODY_S = 60.0  # so long a cluster that had nodes may have none


@contextmanager
def connected(address: str, cpus: int) -> Iterator[None]:
    """The same for a block; a connection that was there before stays."""
    import ray

    fresh = connect(address, cpus)
    try:
        yield
    finally:
        if fresh:
            ray.shutdown()


def checked(ours: Stamp) -> Callable[[bytes], tuple[bool, object]]:
    """A function of a pickled (function, arguments): (True, its result), or (False, why this worker must not run it).

    Ray ships it by value, as it is made here, so that a worker of any version can run it. It therefore uses no name of
    this module, and looks before it reads what only our version can read.
    """

    def run(task: bytes) -> tuple[bool, object]:
        import hashlib
        import importlib
        import pickle
        import platform
        from pathlib import Path

        try:
            package = importlib.import_module("eunomia")
        except ImportError:
            return False, f"worker {platform.node()} has no package eunomia; install {ours[0]} on every node"
        theirs = vars(package).get("_stamp")
        if theirs is None:
            digest, folder = hashlib.sha256(), Path(str(package.__file__)).parent
            for path in sorted(folder.rglob("*.py")):
                digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
            theirs = (package.__version__, digest.hexdigest()[:12])
            vars(package)["_stamp"] = theirs
        if theirs != ours:
            found, wanted = (f"eunomia {version} (source {source})" for version, source in (theirs, ours))
            return False, f"worker {platform.node()} has {found}; install {wanted} on every node"
        function, arguments = pickle.loads(task)
        return True, function(*arguments)

    return run


def on_ray(
    function: Callable[..., T], tasks: Iterable[tuple[int, tuple[object, ...]]], workers: int
) -> Iterator[tuple[int, T | str]]:
    """``function`` of each task's arguments, ``workers`` at a time, with the task's number, as they end.

    One whose worker or node dies runs again, ``TRIES`` times in all; then a sentence stands in place of its result, as
    for one that raises. Raises ConfigError for a worker that has another version of this package. Results come back to
    this process. What a task writes itself needs a folder that all nodes share. Raises ConfigError, too, where no node
    has a processor: soon, or after a minute where one had.
    """
    import ray

    remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(checked(stamp_here()))
    left, running = iter(tasks), dict[object, int]()
    had_s = -math.inf  # when a node was there
    try:
        while True:
            interrupts.check()
            for number, arguments in itertools.islice(left, workers - len(running)):
                packed = ray.cloudpickle.dumps((function, arguments))  # type: ignore[no-untyped-call]
                running[remote.remote(packed)] = number
            if not running:
                return
            ended = ray.wait(list(running), timeout=LOOK_S)[0]
            had_s = time.monotonic() if ended else _still_there(had_s)
            for ready in ended:
                number = running.pop(ready)
                try:
                    ran, answer = ray.get(ready)
                except ray.exceptions.RayTaskError as error:
                    ran, answer = True, f"{type(error.cause).__name__}: {error.cause}"
                except ray.exceptions.RayError as error:
                    ran, answer = True, f"its worker died {TRIES} times ({type(error).__name__})"
                if not ran:
                    raise ConfigError(str(answer))
                yield number, answer
    except ConnectionError as error:  # of Ray's clients
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise ConfigError(
            f"the Ray cluster is gone ({why}); what was written is kept: run the same command again"
        ) from None
    finally:
        for task in running if ray.is_initialized() else ():  # else Ray would start a cluster here, to ask it
            with suppress(ConnectionError):
                ray.cancel(task, force=True)


def _still_there(had_s: float) -> float:
    """When a node with a processor was there last, now if one is. Raises ConfigError."""
    import ray

    now_s = time.monotonic()
    if ray.cluster_resources().get("CPU", 0.0) >= 1.0:  # type: ignore[no-untyped-call]
        return now_s
    if now_s - had_s < NOBODY_S:
        return had_s
    raise ConfigError(
        "no node of the Ray cluster has a CPU: add one (ray start --address=HOST:PORT), or let its autoscaler keep one"
    )
