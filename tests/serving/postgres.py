"""A PostgreSQL of its own for tests and benchmarks, whose processes can be killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import children
from tests.ports import free_port


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
    port = free_port()
    as_user: list[str] = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]

    def run(program: str, *arguments: str) -> None:
        children.run([*as_user, programs / program, *arguments], check=True, cwd="/")

    data = str(folder / "data")
    run("initdb", "-D", data, "-A", "trust", "-U", "eunomia", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} {more}"
    run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield Postgres(f"postgresql://eunomia@127.0.0.1:{port}/postgres", folder)
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
