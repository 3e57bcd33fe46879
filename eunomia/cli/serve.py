"""``eunomia serve``: the live server."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import counted, note, stderr
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.serving.options import ServerOptions
    from eunomia.serving.server import Server

BOUNDED = {(3, 12): 9, (3, 13): 2}  # from these on, asyncio says when a client reads too slowly
UNREAD = (
    "warning: this Python keeps answers that nobody reads without bound (CVE-2024-12254): pip install uvloop, or take "
    "Python {} or later"
)


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("serve")(serve)


def serve(
    what: Annotated[str, typer.Argument(metavar="SERVER.toml|NETWORK.onnx|FOLDER|demo|key", help="A server file; a "
                                        "network or a folder of them, for callers of this machine; 'demo': networks "
                                        "built in code; 'key': make an API key.")],
    sets: opt.Set = None,
    policy: Annotated[str | None, typer.Option("--policy", "-p", metavar="NAME", help="Instead of the file's.")] = None,
    takeover: Annotated[bool, typer.Option("--takeover", help="Go on for the server that runs at this address, if "
                                           "one does; it leaves.")] = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Serve networks over the Open Inference Protocol, HTTP and gRPC, until Ctrl-C."""
    if what == "key":
        if sets or policy or takeover:
            raise ConfigError(
                "'eunomia serve key' makes a key and serves nothing: it takes no --set, --policy or --takeover"
            )
        _make_key(as_json)
        return
    with _ends_at_once(quiet or as_json):
        _start(what, [*(sets or ()), *([f"policy={policy}"] if policy else ())], takeover, quiet, as_json)


def _start(what: str, overrides: list[str], takeover: bool, quiet: bool, as_json: bool) -> None:
    from eunomia.serving.devices.unused import keep_freed_in_one_heap

    keep_freed_in_one_heap()
    from eunomia.config.server import demo_server, load_server
    from eunomia.study.serving.beforehand import check_files
    from eunomia.study.serving.server import close, server_options

    if what != "demo" and not Path(what).suffix and not Path(what).exists():
        raise ConfigError(
            f"there is no server file '{what}'; give the path of a TOML file, or 'demo' or 'key'"
        )
    config = demo_server(overrides) if what == "demo" else load_server(what, overrides)
    check_files(config, ports=not takeover)
    options = replace(server_options(config, note), takeover=takeover)
    try:
        _run(_serve(options, quiet, as_json))
    finally:  # no thread looks into the database any more
        close(options.directory)


class Stopped(BaseException):
    """SIGTERM came before the event loop takes it. No Exception: user code that loads must not swallow it."""


_early = threading.Event()  # it came, whoever swallowed it all the same


@contextmanager
def _ends_at_once(quiet: bool) -> Iterator[None]:
    """Until the event loop takes signals, SIGTERM ends what is going on: nobody is served yet."""

    def leave(number: int, frame: FrameType | None) -> None:
        _early.set()
        raise Stopped

    if threading.current_thread() is not threading.main_thread():  # a program's signals are its own business
        yield
        return
    _early.clear()
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except Stopped:
        _say_early(quiet)
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_early(quiet: bool) -> None:
    if not quiet:
        stderr().print("stopped before it was ready")


def _run(work: Coroutine[object, object, None]) -> None:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        if (least := bounded_from(*sys.version_info[:3])) is not None:
            stderr().print(UNREAD.format(least))
        asyncio.run(work)
    else:
        uvloop.run(work)


def bounded_from(major: int, minor: int, micro: int) -> str | None:
    """The release of this Python from which on asyncio keeps no unread answers without bound; None = it is as new."""
    fixed = BOUNDED.get((major, minor), 0)
    return f"{major}.{minor}.{fixed}" if micro < fixed else None


def _make_key(as_json: bool) -> None:
    from eunomia.serving.tenants.grants import hash_key, new_key

    key = new_key()
    if as_json:
        typer.echo(json.dumps({"key": key, "key_sha256": hash_key(key)}))
        return
    typer.echo(f"key         {key}\nkey_sha256  {hash_key(key)}")
    stderr().print("give the key to the tenant, it is shown this once; put key_sha256 into the server file")


async def _serve(options: ServerOptions, quiet: bool, as_json: bool) -> None:
    from eunomia.serving.devices.memory import set_aside
    from eunomia.serving.server import Server

    silent = quiet or as_json
    stop, server = asyncio.Event(), Server(options)
    if not silent:
        networks = server.service.repository
        count = len(networks.names if options.load_all else (*options.networks, *networks.remembered))
        stderr().print(f"loading {counted(count, 'network')} on {counted(len(options.devices), 'device')}")
    for number in _stopping():
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if _early.is_set():
        stop.set()
    if not await _started(server, stop):
        _say_early(silent)
        return
    try:
        set_aside()
        _announce(server, quiet, as_json)
        await _either(stop, server.succession.over)
        if server.succession.over.is_set() and not stop.is_set():
            if not silent:
                stderr().print("another process serves here now; this one ends with its last connection")
            await _either(stop, server.last())
        if not silent:
            stderr().print(f"draining: {counted(server.inside, 'request')} inside")
    finally:
        await server.__aexit__()
    if not silent:
        left = f"; {counted(server.left, 'request')} left without an answer" if server.left else ""
        stderr().print(f"stopped{left}")


async def _started(server: Server, stop: asyncio.Event) -> bool:
    """Whether it serves; False = it was to stop while it started, and has. Raises what the start raises."""
    starting, stopping = asyncio.ensure_future(server.__aenter__()), asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    starting.cancel()  # nothing, if it is done
    try:
        await starting
    except asyncio.CancelledError:
        return False
    return True


async def _either(stop: asyncio.Event, other: asyncio.Event | Coroutine[object, object, None]) -> None:
    """Until one of them is over."""
    work = other.wait() if isinstance(other, asyncio.Event) else other
    tasks = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(work)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _stopping() -> list[signal.Signals]:
    """Signals that drain and stop the server.

    A parent that starts it with SIGINT ignored (the background of a shell) protects it from Ctrl-C, like every Unix
    program. With SIGHUP ignored (``nohup``) it survives its terminal. SIGTERM always counts: it is how supervisors stop
    a server.
    """
    heard = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    return [*heard, signal.SIGTERM]


def _announce(server: Server, quiet: bool, as_json: bool) -> None:
    from eunomia.serving.fronts.address import in_url

    scheme, host = "https" if server.options.tls else "http", in_url(server.options.host)
    ready = {
        "http": f"{scheme}://{host}:{server.http_port}",
        "grpc": f"{host}:{server.grpc_port}" if server.grpc_port is not None else None,
        "models": [*dict.fromkeys(e.name for e in server.service.repository.entries(ready_only=True))],
    }
    if as_json:
        typer.echo(json.dumps(ready))
        return
    typer.echo(f"ready: {ready['http']}" + (f", gRPC {ready['grpc']}" if ready["grpc"] else ""))
    if not quiet:
        none = "none yet; those of models_dir are loaded by POST /v2/repository/models/NAME/load"
        if server.options.load_all:
            none = "none: the log says why"
        typer.echo(f"models: {', '.join(ready['models'] or [none])}\nCtrl-C drains and stops")
