"""Do stock clients work, and does anything made up break the server?

Real server processes throughout. Stock tritonclient: HTTP and gRPC, synchronous and asynchronous, every call that it
offers, answers compared bit for bit with the whole network's. Requests made up from the OpenAPI document, from
grammars, by mutation and by coverage. Every endpoint and RPC with no key, a wrong one, a tenant's and an
administrator's.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.serving import fuzz, made_up, roles, stock, stock_calls, streams, tally
from benchmarks.serving.command import part
from benchmarks.serving.machine import Watch
from benchmarks.serving.made_up import LATER, Seen
from benchmarks.serving.page import table
from benchmarks.serving.stage import KEY, SHAPE, SMALL, Stage, call, stage
from benchmarks.serving.streams import server_counts
from benchmarks.serving.tally import printed
from benchmarks.table import Options, Table

LIBRARIES = ("tritonclient", "grpcio", "aiohttp", "geventhttpclient", "schemathesis", "hypothesis", "atheris")


@dataclass(frozen=True)
class Effort:
    """Made-up requests per operation, per kind on the wire, and per reading function; seconds of atheris for each."""

    per_operation: int = 30
    on_the_wire: int = 500
    in_process: int = 1000
    guided_s: int = 10


KNOWN = {"model": "small", "version": "1", "tenant": "acme"}
LITTLE = Effort(4, 30, 60, 2)


@contextlib.contextmanager
def server() -> Iterator[Stage]:
    """A server with the small network and a large one, cut at every block, first come first served."""
    from eunomia.serving.models.convolutional import resnet50

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "large.onnx").write_bytes(resnet50(side=SHAPE[-1], classes=10))
        with stage(SMALL, models_dir=folder, policy="fcfs", block_ms=0.5, calm_ms=0.0) as s:
            call(s.live, "/v2/repository/models/large/load", method="POST", timeout_s=120.0)
            yield s


# --- stock clients ------------------------------------------------------------------------------------------


def clients() -> tuple[list[str], list[str]]:
    """Lines of the page, and what was not as promised."""
    tallies = []
    with server() as s:
        place = stock.prepared(s)
        for name, by in {**stock_calls.ROWS, **streams.ROWS}.items():
            for client, row in by.items():
                tallies.append(asyncio.run(stock.run_row(name, client, row, place)))
                print(" | ".join(tallies[-1].cells()), flush=True)
    calls = sum(t.made for t in tallies)
    lines = [f"**Stock clients** of {versions('tritonclient')}, {calls} calls", "",
             *table(tally.HEAD, [t.cells() for t in tallies])]  # fmt: skip
    return lines, [f"{t.what}, {t.client}: {t.wrong or 'nothing was called'}" for t in tallies if not t.fine]


# --- made-up requests -----------------------------------------------------------------------------------------


def operations(effort: Effort) -> tuple[list[str], list[str]]:
    """schemathesis over the document of a running server."""
    with server() as s:
        stock.prepared(s)
        found = made_up.from_document(s.live.http, KEY, effort.per_operation, KNOWN, "operator")
        after = health(s)
    rows = [operation_row(seen) for seen in found]
    cases = sum(seen.tried for seen in found)
    failed = sum(count for seen in found for status, count in seen.answers.items() if broken(status))
    lines = [f"**Made up from /openapi.json** by {versions('schemathesis')}: {cases} requests of {len(found)} "
             f"operations, {failed} answers of 5xx other than 503 and 504; afterwards: {after or 'all well'}", "",
             *table(("operation", "requests", "2xx", "4xx", "503, 504", "other 5xx", "as promised"), rows)]  # fmt: skip
    return lines, [*faults_of(found), *([after] if after else [])]


def operation_row(seen: Seen) -> list[str]:
    """One operation: how many answers of each hundred."""
    later = sum(count for status, count in seen.answers.items() if int(status) in LATER)
    failed = sum(count for status, count in seen.answers.items() if broken(status))
    by = [sum(count for status, count in seen.answers.items() if status[0] == first) for first in "24"]
    return [f"`{seen.name}`", *map(str, (seen.tried, *by, later, failed)), verdict(seen)]


def broken(status: str) -> bool:
    """An answer that nobody may get."""
    return int(status) >= 500 and int(status) not in LATER


def bodies(effort: Effort) -> tuple[list[str], list[str]]:
    """hypothesis on the wire and in this process, atheris in processes of its own."""
    found: list[tuple[str, Seen]] = []
    with server() as s:
        key = stock.prepared(s).key
        before = server_counts(s.live.http)
        found.append(("hypothesis", made_up.grpc_messages(s.live.grpc, key, effort.on_the_wire)))
        found += [
            ("hypothesis", seen) for seen in made_up.http_bodies(s.live.http, key, SHAPE, effort.on_the_wire)
        ]
        after = health(s)
        until_s = time.monotonic() + 10.0  # what a client gave up on may still be running
        while (kept := server_counts(s.live.http)["free"] != before["free"]) and time.monotonic() < until_s:
            time.sleep(0.05)
        after += " memory for tensors was not given back" * kept
    found += [("hypothesis", made_up.mutated(target, effort.in_process)) for target in fuzz.TARGETS]
    for target in fuzz.TARGETS:
        seen = made_up.guided(target, effort.guided_s)
        if seen is not None:
            found.append(("atheris", seen))
    rows = [
        [seen.name, by, str(seen.tried), answers(seen), str(len(seen.faults)), verdict(seen)]
        for by, seen in found
    ]
    if not any(by == "atheris" for by, _ in found):
        rows.append(["all of them", "atheris", "0", "-", "-", "not run: not installed"])
    lines = [f"**Made-up bodies** ({versions('hypothesis', 'atheris')}). On the wire to a running server (afterwards: "
             f"{after or 'all well'}), and to the functions that read", "",
             *table(("to", "by", "inputs", "answers", "crashes", "as promised"), rows)]  # fmt: skip
    return lines, [*faults_of([seen for _, seen in found]), *([after] if after else [])]


def answers(seen: Seen) -> str:
    """Every kind of answer, the commonest first."""
    return ", ".join(f"{kind} {count}" for kind, count in seen.answers.most_common())


def verdict(seen: Seen) -> str:
    """Whether it stood everything; with the first thing that it did not."""
    if seen.faults:
        return f"**no: {printed(seen.faults[0])}**"
    return "yes" if seen.tried else "**no: nothing was tried**"


def faults_of(found: Sequence[Seen]) -> list[str]:
    """For the end of the run."""
    return [
        f"{seen.name}: {seen.faults or 'nothing was tried'}"
        for seen in found
        if seen.faults or not seen.tried
    ]


def health(s: Stage) -> str:
    """What is wrong with a server after such treatment; empty when nothing is."""
    status, state = call(s.live, "/v2/eunomia/state")
    if status != 200:
        return f"the server answers {status}"
    restarts = sum(device["restarts"] for device in state["devices"])
    alive = all(device["alive"] for device in state["devices"])
    return "" if alive and not restarts else f"the worker died {restarts} times"


# --- roles -----------------------------------------------------------------------------------------------------


def doors() -> tuple[list[str], list[str]]:
    """Every endpoint and RPC of a running server."""
    with server() as s:
        key = stock.prepared(s).key
        found = roles.ask_rpcs(s.live.grpc, key, KEY)
        call(s.live, "/v2/repository/models/small/load", method="POST", timeout_s=120.0)
        found = roles.ask_doors(s.live.http, roles.endpoints(s.live.get("/openapi.json")), key, KEY) + found
    rpcs = sum(" " not in door.name for door in found)
    faults = [f"{door.name}: {door.fault} {door.seen}" for door in found if door.fault]
    head = (
        "endpoint or RPC",
        "for",
        "no key",
        "a wrong key",
        "a tenant's",
        "an administrator's",
        "as promised",
    )
    lines = [f"**Roles**: {len(found) - rpcs} endpoints and {rpcs} RPCs, four keys each; {len(faults)} faults. Empty "
             "bodies and names of nobody: whoever is let in may hear 400 or 404", "",
             *table(head, roles.grouped(found))]  # fmt: skip
    return lines, faults


def versions(*names: str) -> str:
    """``name number`` of those that are installed."""
    found = []
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    effort, watch = LITTLE if options.quick else Effort(), Watch()
    lines, faults = [versions(*LIBRARIES) + "."], []
    for measured in (clients, lambda: operations(effort), lambda: bodies(effort), doors):
        text, wrong = measured()
        lines += ["", *text]
        faults += wrong
        watch.look()
    yield part(lines, watch)
    if faults:
        yield Table("faults", notes=("\n".join(["Not as promised:", *faults]),))
