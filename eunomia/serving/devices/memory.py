"""Memory that a process has used once stays with it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import mmap
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from eunomia.core.errors import ModelError
from eunomia.serving.devices.objection import Objection

KEPT_BYTES = 256 * 1024**2
NEEDS_MIB = 130  # of a device's own, with ONNX Runtime loaded
FREE_SHARE = 0.75  # of what is free: what one load may take
LEAST_LEFT = 24 * 1024**2  # bytes, before it is: with less, no network loads
YOUNG, MIDDLE, OLD = 1_000, 5, 8_000  # when each generation of the garbage collector is looked through
LOOK_S = 0.01  # of processor time
NO_MEMORY, ARENA = ("bad_alloc", "bad allocation"), "Failed to allocate memory"  # of C++, and of the runtime
GROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


class NoDescriptor(OSError):
    """Nobody can look how much memory there is: that says nothing of the memory."""


def keep_freed_memory() -> bool:
    """Tell the C library to reuse freed blocks of any size, instead of giving them back; True if it listens.

    By default a body of 600 KB is mapped anew for every copy, and each of its pages faults: about 0.45 ms of processor
    time a request, against 0.03 ms. At most ``KEPT_BYTES`` stay unused. Only glibc has this call.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT_BYTES) and mallopt(M_TRIM_THRESHOLD, KEPT_BYTES))


def machine_bytes() -> int:
    """Memory of the machine, or of the control group that this process lives in; 0 = nobody says."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (OSError, ValueError):
        return 0
    for folder, most, _ in _groups():
        with contextlib.suppress(OSError, ValueError):
            found.append(int((folder / most).read_text()))
    return min(found)


def free_bytes() -> int | None:
    """What programs may still take on this machine, and in the control groups of this process; None = nobody says.

    Raises NoDescriptor.
    """
    try:
        found = [int(_seen(Path("/proc/meminfo")).partition("MemAvailable:")[2].split()[0]) * 1024]
    except (ValueError, IndexError):
        return None
    for folder, most, used in _groups():
        with contextlib.suppress(OSError, ValueError):
            taken = int((folder / used).read_text()) - _files_bytes(folder / "memory.stat")
            found.append(int((folder / most).read_text()) - taken)
    return max(min(found), 0)


def _seen(path: Path) -> str:
    """What stands in a file; empty where it cannot be read. Raises NoDescriptor."""
    try:
        return path.read_text()
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise NoDescriptor(
                error.errno, "no file descriptor is left to look at memory: raise ulimit -n"
            ) from None
        return ""


def _files_bytes(path: Path) -> int:
    """Of a control group: files that its kernel holds and would let go; 0 where nobody says."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _groups() -> Iterator[tuple[Path, str, str]]:
    """Folders of the control groups of this process, its own first, with the files of their bound and their use."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        lines = []
    for line in [*lines, "0::/", "1:memory:/"]:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        names = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        )
        root = GROUP / "memory" if kinds else GROUP
        own = root / path.strip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root):
                yield folder, *names


def own_bytes(pid: int) -> int:
    """What a process has in memory for itself; 0 where nobody says. Raises NoDescriptor."""
    try:
        _, resident, shared, *_ = map(int, _seen(Path(f"/proc/{pid}/statm")).split())
    except ValueError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def own_data_bytes() -> int:
    """What counts for the bound of this process; 0 where nobody says. Raises NoDescriptor."""
    try:
        return int(_seen(Path("/proc/self/statm")).split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, IndexError):
        return 0


def end_no_sooner(pid: int) -> None:
    """Where memory runs out, the kernel ends this process no sooner than the one that says so."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(Path("/proc/self/oom_score_adj").read_text())


def bound_memory(size: int) -> None:
    """No more memory of its own than that for this process, 0 = any: what asks for more fails, and nothing else."""
    if size:
        resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))


@contextlib.contextmanager
def within_what_is_free(most: int) -> Iterator[None]:
    """Inside, this process takes at most ``most`` bytes, and ``FREE_SHARE`` of what is free now; ``most`` 0 = any.

    What is free: on the machine, and in the control groups of this process. Raises ModelError where it is too little.
    """
    bound, share = most, 0
    if most:
        with contextlib.suppress(NoDescriptor):
            if (free := free_bytes()) is not None:
                share = int(FREE_SHARE * free)
                bound = own_data_bytes() + max(share, LEAST_LEFT)
    if bound >= most:
        yield
        return
    bound_memory(bound)
    try:
        yield
    except Exception as error:
        if out_of_memory(error) is None:
            raise
        raise ModelError(
            f"it needs more than {share // 2**20} MiB of memory, {FREE_SHARE:.0%} of what is free now: end what else "
            "takes memory here, or serve it on a larger machine"
        ) from None
    finally:
        bound_memory(most)


def see_what_is_left() -> None:
    """Raises OSError where the bound leaves too little for any network."""
    mmap.mmap(-1, LEAST_LEFT, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()


def no_room(bound_mib: int) -> str:
    """Why a device does not load or run something."""
    return f"it needs more memory than is left of the device's {bound_mib} MiB (memory_mib)"


def too_little(bound_mib: int) -> str:
    """Why a device's process does not come to serve."""
    return (
        f"it may have {bound_mib} MiB of memory (memory_mib), and needs {NEEDS_MIB} without networks: give it more, or "
        "0 for any"
    )


def out_of_memory_kills() -> int | None:
    """Processes of this machine that its kernel has ended for want of memory; None where it does not count them."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return None
    found = text.partition("\noom_kill ")[2].split("\n", 1)[0]
    return int(found) if found else None


def out_of_memory(error: Exception) -> int | None:
    """Where an error says that there was no memory: how many MiB there are, by the bound or all; else None.

    Without a bound, a GPU's memory may be meant, unless the error is of a processor or of C++.
    """
    bound, text = resource.getrlimit(resource.RLIMIT_DATA)[0], str(error)
    of_runtime = ARENA in text and (bound >= 0 or isinstance(error, Objection))
    if not (isinstance(error, MemoryError) or of_runtime or any(words in text for words in NO_MEMORY)):
        return None
    return (machine_bytes() if bound < 0 else bound) // 2**20


def set_aside() -> None:
    """What lives now is here to stay: the garbage collector looks at it no more, and seldom at what is younger.

    For a process that is ready to serve. Otherwise each full collection goes through all modules and networks: 200,000
    objects, and every request waits for 0.1 to 0.2 s, some times a minute.

    The young ones are looked through often, as few as possible at a time: 10,000 of them hold the event loop for 5 to 7
    ms, 1,000 for half of one.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


class Young:
    """Has the garbage collector look at the young objects after every ``LOOK_S`` of work.

    By itself it looks once a thousand more have come than gone. Connections may go as fast as they come, and so may
    requests that have waited. Then it does not look for long, and at 100,000 at once: 20 to 30 ms.
    """

    def __init__(self) -> None:
        self._looks, self._worked_s = 0, 0.0

    def worked(self, seconds: float) -> None:
        """So much processor time has been spent."""
        self._worked_s += seconds
        if self._worked_s >= LOOK_S:
            self._worked_s = 0.0
            self._looks += 1
            gc.collect(0 if self._looks % MIDDLE else 1)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """What lived before is not looked through inside: a measurement would take its own pause for the server's.

    Of several that overlap, the first one's end ends it for all.
    """
    outermost = gc.get_freeze_count() == 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if outermost:
            gc.unfreeze()
