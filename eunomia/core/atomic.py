"""Writing whole or not at all: text files and directories that appear in one step."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from eunomia.core.errors import OutputError

INCOMPLETE = "INCOMPLETE"


def write_text(path: str | Path, text: str) -> None:
    """Write or replace one text file in one step; raises OutputError."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write or replace one file in one step; raises OutputError."""
    target = Path(path)
    stage = target.with_name(f".{target.name}.{os.getpid()}")
    with clear_output_errors(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            flush_bytes(stage, content)
            os.replace(stage, target)
            sync_directory(target.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                stage.unlink(missing_ok=True)
            raise


def check_writable(path: str | Path) -> None:
    """Raise OutputError now if a file could not be written there later, after hours of work."""
    target = Path(path)
    probe = target.with_name(f".{target.name}.{os.getpid()}")
    with clear_output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a directory; name a file in it")
        probe.touch()
        probe.unlink()


def flush_text(path: Path, text: str) -> None:
    """Write a text file and wait until it is on disk."""
    flush_bytes(path, text.encode("utf-8"))


def flush_bytes(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def clear_output_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into one clear sentence."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "the disk is full; free some space or choose another directory",
            errno.EDQUOT: "the disk quota is used up; free some space or choose another directory",
            errno.EROFS: "the file system is read-only; choose another directory",
            errno.EACCES: "permission denied; choose another directory",
            errno.EPERM: "permission denied; choose another directory",
            errno.EEXIST: "a part of the path is a file; choose another directory",
            errno.ENOENT: "there is no such directory and none can be made; choose another directory",
            errno.ENOTDIR: "a part of the path is a file; choose another directory",
            errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
        }.get(error.errno or 0, error.strerror or str(error))
        raise OutputError(f"cannot write '{path}': {advice}") from error


@contextlib.contextmanager
def staging(target: Path) -> Iterator[Path]:
    """A hidden sibling to write into; takes the target's name when the block ends without an error."""
    prefix = f".{target.name}.partial-{socket.gethostname()}-"
    stage = target.with_name(f"{prefix}{os.getpid()}")
    with clear_output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent, prefix)
        try:
            stage.mkdir()
            flush_text(stage / INCOMPLETE, "this run is being written, or was stopped while it was\n")
            yield stage
            (stage / INCOMPLETE).unlink()
            sync_directory(stage)
            _take_name(stage, target)
            sync_directory(target.parent)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _take_name(stage: Path, target: Path) -> None:
    """Rename ``stage`` to ``target``; what stood there is left under the stage's name."""
    if not occupied(target):
        os.rename(stage, target)  # an empty directory of that name is replaced
        return
    if _exchange(stage, target):
        return
    old = target.with_name(stage.name.replace(".partial-", ".old-"))
    os.rename(target, old)
    try:
        os.rename(stage, target)
    except BaseException:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories in one step, where the system can (Linux renameat2); False where it cannot."""
    at_working_directory, swap = -100, 2
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here = ctypes.c_int(at_working_directory)
    return int(rename(here, os.fsencode(one), here, os.fsencode(other), ctypes.c_uint(swap))) == 0


def _sweep(parent: Path, prefix: str) -> None:
    """Remove what killed processes of this machine left behind."""
    for left in parent.glob(f"{prefix.replace('[', '[[]')}*"):
        pid = left.name[len(prefix) :]
        if pid.isdigit() and (int(pid) == os.getpid() or not _alive(int(pid))):
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def occupied(path: Path) -> bool:
    """Whether something stands there; an empty directory does not count."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def sync_directory(path: Path) -> None:
    """Wait until a directory's entries are on disk, where the system can."""
    with contextlib.suppress(OSError):  # not every system lets a directory be opened
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
