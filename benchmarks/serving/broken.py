"""Means to break things: a wall clock that jumps for one process, and a PostgreSQL whose processes can be killed."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")  # what is preloaded


@dataclass(frozen=True)
class WallClockJumps:
    """A preloaded library that shifts the wall clock of one process tree; monotonic clocks stay as they are."""

    folder: Path

    @classmethod
    def build(cls) -> WallClockJumps | None:
        """Compile it; None without a C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return None
        folder = Path(tempfile.mkdtemp(prefix="eunomia-clock-"))
        (folder / "shift").write_bytes(struct.pack("d", 0.0))
        flags = ["-O2", "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(SOURCE), "-ldl"]
        subprocess.run([compiler, *flags], check=True, capture_output=True)
        return cls(folder)

    @property
    def environment(self) -> Mapping[str, str]:
        """For the process whose clock shall jump."""
        return {"LD_PRELOAD": str(self.folder / "clock.so"), "EUNOMIA_WALL_SHIFT": str(self.folder / "shift")}

    def jump(self, seconds: float) -> None:
        """So far from the true time, from now on."""
        with (self.folder / "shift").open("r+b") as file, mmap.mmap(file.fileno(), 8) as place:
            place[:] = struct.pack("d", seconds)


@dataclass(frozen=True)
class Postgres:
    """A running cluster of its own."""

    url: str
    folder: Path

    def kill_connections(self) -> int:
        """kill -9 of all processes that serve a connection; returns how many."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        killed = 0
        for child in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split():
            title = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
            if b"eunomia postgres" in title:  # user and database of a connection
                os.kill(int(child), signal.SIGKILL)
                killed += 1
        return killed


@contextlib.contextmanager
def postgres(more: str = "") -> Iterator[Postgres | None]:
    """A cluster, ended after the block; None where PostgreSQL is not installed. ``more``: options of the server."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which("pg_ctl")
    programs = Path(found).parent if found else places[-1] if places else None
    if programs is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="eunomia-pg-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    as_user = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [*as_user, str(programs / program), *arguments], check=True, capture_output=True, cwd="/"
        )

    data = str(folder / "data")
    run("initdb", "-D", data, "-A", "trust", "-U", "eunomia", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} {more}"
    run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield Postgres(f"postgresql://eunomia@127.0.0.1:{port}/postgres", folder)
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
