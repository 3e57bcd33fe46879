"""Run commands of ``eunomia`` at a checkout, many in one process, so that loading and compiling happen once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

# Runs at the checkout, which need not have this file: standard library only. One line of JSON in, one line out.
PROGRAM = """
import contextlib, io, json, runpy, sys, time, traceback
answers = sys.stdout
for line in sys.stdin:
    given = json.loads(line)
    out, err, start_s = io.StringIO(), io.StringIO(), time.perf_counter()
    sys.argv = ["eunomia", *given["arguments"]]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module("eunomia", run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else int(left.code is not None)
        except BaseException:
            status = 99
            traceback.print_exc()
    taken_s = round(time.perf_counter() - start_s, 3)
    answer = {"name": given["name"], "status": status, "out": out.getvalue(), "err": err.getvalue()[-2000:]}
    print(json.dumps({**answer, "s": taken_s}), file=answers, flush=True)
"""


@dataclass(frozen=True)
class Command:
    """Arguments of ``eunomia``, and where what it writes lies (None: on standard output, as JSON)."""

    name: str
    arguments: tuple[str, ...]
    folder: str | None = None


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    name: str
    status: int
    out: str
    err: str
    s: float


def run(checkout: Path, commands: Sequence[Command], workers: int, shared: Path | None) -> list[Answer]:
    """The commands in ``workers`` processes, each with every ``workers``-th of them; answers in the order asked."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    if shared is not None:
        environment["EUNOMIA_SHARED"] = str(shared)
    found: dict[str, Answer] = {}

    def work(mine: Sequence[Command]) -> None:
        text = "".join(json.dumps(asdict(command)) + "\n" for command in mine)
        with subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            cwd="/",
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(text)  # far less than a pipe holds, or the process reads on meanwhile
            process.stdin.close()
            for line in process.stdout:
                answer = Answer(**json.loads(line))
                found[answer.name] = answer
                print(
                    f"{len(found)}/{len(commands)} {answer.name}: {answer.s:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, [commands[number::workers] for number in range(workers)]))
    return [
        found.get(command.name, Answer(command.name, -1, "", "the process died", 0.0)) for command in commands
    ]
