"""A Ray cluster: reached by its address, or started on this machine for the time."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.core.version import __version__

T = TypeVar("T")
LOCAL = "ray"  # RAY_ADDRESS, else this machine
TRIES = 3  # a cell whose worker has died so often is taken for the cause
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
    try:
        if address != LOCAL:
            ray.init(address, **quiet)
        elif os.environ.get("RAY_ADDRESS"):
            ray.init(**quiet)
        else:
            ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"no Ray cluster answers at '{address}': {why}; give ray, HOST:PORT or ray://HOST:PORT"
        ) from None
    return True


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


@functools.cache
def stamp_here() -> Stamp:
    """What a worker must have as well: same source, same results. Read once, as this process and its workers do."""
    digest, folder = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return __version__, digest.hexdigest()[:12]


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
    this process. What a task writes itself needs a folder that all nodes share.
    """
    import ray

    remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(checked(stamp_here()))
    left, running = iter(tasks), dict[object, int]()
    try:
        while True:
            for number, arguments in itertools.islice(left, workers - len(running)):
                packed = ray.cloudpickle.dumps((function, arguments))  # type: ignore[no-untyped-call]
                running[remote.remote(packed)] = number
            if not running:
                return
            for ready in ray.wait(list(running))[0]:
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
    finally:
        for task in running:
            ray.cancel(task, force=True)
