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

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

/* The wall clock of this process, shifted by the double in the file that EUNOMIA_WALL_SHIFT names. */
static volatile double *shift;
__attribute__((constructor)) static void map(void) {
    const char *path = getenv("EUNOMIA_WALL_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *place = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED) shift = place;
}
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(id, t);
    if (shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += (time_t)*shift;
    return done;
}
int gettimeofday(struct timeval *t, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) { t->tv_sec = now.tv_sec; t->tv_usec = now.tv_nsec / 1000; }
    return 0;
}
time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
"""


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
        (folder / "clock.c").write_text(SOURCE)
        (folder / "shift").write_bytes(struct.pack("d", 0.0))
        command = [
            compiler,
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            str(folder / "clock.so"),
            str(folder / "clock.c"),
            "-ldl",
        ]
        subprocess.run(command, check=True, capture_output=True)
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
