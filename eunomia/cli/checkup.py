"""What this machine and this installation offer, one finding each: as it should be, a remark, or a fault."""

from __future__ import annotations

import importlib
import os
import platform
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from eunomia.cli.options import cores
from eunomia.core.version import __version__

REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?:>=(?P<least>[\d.]+))?(?:.*extra == ['\"](?P<extra>[\w-]+)['\"])?"
)
OURS = ("test", "dev", "bench", "fuzz")  # extras of those who work on Eunomia itself
MODULES = {"tomli-w": "tomli_w"}  # distribution -> module, where they differ
PYTHONS = ((3, 11), (3, 14))  # the first, and the first that is too new
OWN_FILES, PORTS = 200, 2  # of a server: files beside its connections, and where they come
State = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """``remedy``: what to do, where the state is not ok."""

    group: str
    what: str
    value: str
    state: State = "ok"
    remedy: str = ""


def findings() -> list[Finding]:
    """Everything that is looked at, in the order of the groups."""
    return [found for part in PARTS for found in part()]


def python() -> Iterator[Finding]:
    """Eunomia and the interpreter."""
    import eunomia

    yield Finding("program", "eunomia", f"{__version__} in {Path(eunomia.__file__).parent}")
    first, after = PYTHONS
    fits = first <= sys.version_info[:2] < after
    remedy = "" if fits else "make an environment with Python 3.11, 3.12 or 3.13"
    said = f"{platform.python_version()} in {sys.prefix}"
    yield Finding("program", "python", said, "ok" if fits else "fault", remedy)
    yield Finding("program", "system", f"{platform.system()} {platform.release()}, {platform.machine()}")


def packages() -> Iterator[Finding]:
    """The core, each package imported, and the optional parts by extra, each version looked up."""
    try:
        lines = requires("eunomia") or []
    except PackageNotFoundError:
        yield Finding(
            "core", "packages", "unknown: not installed, only on the path", "note", "pip install -e ."
        )
        return
    extras: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        found = REQUIREMENT.match(line)
        assert found is not None, line
        extras.setdefault(found["extra"] or "", []).append((found["name"], found["least"] or "0"))
    for name, least in extras.pop("", []):
        yield _core(name, least)
    for extra, needs in sorted(extras.items()):
        if extra not in OURS:
            yield _optional(extra, needs)


def _core(name: str, least: str) -> Finding:
    try:
        importlib.import_module(MODULES.get(name, name))
        has = version(name)
    except Exception as error:  # a library that is there may still fail to load
        said = f"cannot be imported: {type(error).__name__}: {error}"
        return Finding("core", name, said, "fault", f"pip install --force-reinstall '{name}>={least}'")
    if _older(has, least):
        return Finding("core", name, f"{has}, too old", "fault", f"pip install '{name}>={least}'")
    return Finding("core", name, has)


def _optional(extra: str, needs: list[tuple[str, str]]) -> Finding:
    has: dict[str, str] = {}
    for name, _ in needs:
        try:
            has[name] = version(name)
        except PackageNotFoundError:
            continue
    lacks = [name for name, _ in needs if name not in has]
    old = [
        f"{name} {has[name]}, not {least}"
        for name, least in needs
        if name in has and _older(has[name], least)
    ]
    remedy = f"pip install 'eunomia[{extra}]'"
    if lacks:
        return Finding("optional", extra, f"without {', '.join(lacks)}", "note", remedy)
    if old:
        return Finding("optional", extra, f"too old: {'; '.join(old)}", "fault", remedy)
    return Finding("optional", extra, ", ".join(f"{name} {has[name]}" for name, _ in needs))


def _older(has: str, least: str) -> bool:
    one, other = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (has, least))
    return one < other


def processor() -> Iterator[Finding]:
    """Cores that may be used, and a quota of the container."""
    usable, quota = cores(), quota_cores()
    said = f"{usable} of {os.cpu_count()} usable"
    if quota is not None and quota < usable:
        remedy = f"give --workers {max(1, round(quota))}: the default is one process per usable core"
        yield Finding("machine", "cores", f"{said}; a cgroup quota of {quota:g}", "note", remedy)
    else:
        yield Finding("machine", "cores", f"{said}; no cgroup quota below that")


def quota_cores(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """The least quota of this process's control group and of those around it, in cores; None: there is none."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = next((root / name for name in (controllers, "cpu") if name and (root / name).is_dir()), root)
        inner = top / path.lstrip("/")
        for folder in (top, *(each for each in (inner, *inner.parents) if top in each.parents)):
            share = _quota(folder)
            if share is not None:
                found.append(share)
    return min(found, default=None)


def _quota(folder: Path) -> float | None:
    """Of one control group: cpu.max of version 2, cpu.cfs_* of version 1."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):  # no such group, or "max"
        return None


def folders() -> Iterator[Finding]:
    """Where results, temporary files and machine code go."""
    here = "cd to a folder that you may write, or give --out DIR"
    yield _writable("current", Path.cwd(), "fault", here)
    yield _writable(
        "temporary", Path(tempfile.gettempdir()), "fault", "set TMPDIR to a folder that you may write"
    )
    yield machine_code()


def _writable(what: str, folder: Path, otherwise: State, remedy: str) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        return Finding("folders", what, f"{folder}: {error.strerror}", otherwise, remedy)
    return Finding("folders", what, f"{folder}, {_size(shutil.disk_usage(folder).free)} free")


def machine_code() -> Finding:
    """Where compiled code is kept, and how many event loops of these sources are there."""
    anew = "set NUMBA_CACHE_DIR to a folder that you may write; until then each process compiles anew"
    try:
        from eunomia.cli.kept_code import kept_loops

        folder, loops = kept_loops()
    except (ImportError, RuntimeError, ValueError) as error:
        return Finding("folders", "machine code", f"cannot be kept: {error}", "note", anew)
    found = _writable("machine code", folder if folder.is_dir() else folder.parent, "note", anew)
    if found.state != "ok":
        return found
    said = f"{loops} event loops in {folder}" if loops else f"none yet in {folder}: the first run compiles"
    return Finding("folders", "machine code", said)


def limits() -> Iterator[Finding]:
    """What the server needs of the system: open files and shared memory."""
    from eunomia.config.server import ServerConfig

    fields = ServerConfig.model_fields
    most = int(fields["max_connections"].default)
    wanted = PORTS * most + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said = f"{_count(soft)}, may be raised to {_count(hard)}"
    if hard != resource.RLIM_INFINITY and hard < wanted:
        remedy = f"ulimit -n {wanted} for a server with {most:,} connections at each port, its default"
        yield Finding("machine", "open files", said, "note", remedy)
    else:
        yield Finding("machine", "open files", said)
    in_a_file = not hasattr(os, "memfd_create")  # else a server's tensors are in memory without a name
    yield shared_memory(int(fields["arena_mib"].default) * 1024**2 * in_a_file)


def shared_memory(wanted: int, folder: Path = Path("/dev/shm")) -> Finding:
    """Room for regions of clients, and on some systems for a server's tensors."""
    if not folder.is_dir():
        return Finding(
            "machine", "shared memory", f"no {folder}: a server's tensors lie in the temporary folder"
        )
    usage = shutil.disk_usage(folder)
    said = f"{_size(usage.free)} free of {_size(usage.total)}"
    if usage.free < wanted:
        remedy = (
            f"docker run --shm-size=1g, or a smaller arena_mib than {wanted // 1024**2} in the server's file"
        )
        return Finding("machine", "shared memory", said, "note", remedy)
    return Finding("machine", "shared memory", said)


def _size(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"


def _count(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else f"{limit:,}"


PARTS: tuple[Callable[[], Iterator[Finding]], ...] = (python, packages, processor, limits, folders)
