"""The ``eunomia`` command: assembles the verbs, turns errors into one sentence and an exit status."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import Annotated

import typer

from eunomia.cli import (
    catalogue,
    cluster,
    costs,
    demo,
    deploy,
    distill,
    doctor,
    doors,
    evolve,
    inspect,
    learn,
    load,
    new,
    plan,
    profile,
    promote,
    run,
    scenario,
    serve,
    shares,
    sharing,
    study,
    trace,
    twin,
)
from eunomia.core import interrupts
from eunomia.core.errors import EunomiaError
from eunomia.core.interrupts import INTERRUPTED
from eunomia.core.version import __version__

MISUSED = 2  # that of a wrong command line
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # typer's own, or that of click, by version

app = typer.Typer(
    name="eunomia",
    cls=doors.Doors,
    help="Schedulers that give every tenant the service it was promised. Start with: eunomia demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eunomia {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


for module in (
    demo,
    run,
    study,
    plan,
    inspect,
    catalogue,
    learn,
    distill,
    evolve,
    serve,
    load,
    promote,
    doctor,
):
    module.register(app)
app.add_typer(cluster.app, name="cluster")
app.add_typer(deploy.app, name="deploy")
app.add_typer(sharing.app, name="sharing")
app.add_typer(shares.app, name="shares")
app.add_typer(profile.app, name="profile")
app.add_typer(twin.app, name="twin")
app.add_typer(trace.app, name="trace")
app.add_typer(scenario.app, name="scenario")
app.add_typer(costs.app, name="costs")
app.add_typer(new.app, name="new")
doors.assign([*app.registered_commands, *app.registered_groups])


def main() -> None:
    """Run the command line; exits with 0, or with the error's own status."""
    sys.exit(status())


def status() -> int:
    """Exit status of the command line: 0 ok, 1 runtime, 2 usage, 130 stopped by Ctrl-C."""
    try:
        with interrupts.noted():
            code = app(standalone_mode=False, prog_name="eunomia")
        if code == INTERRUPTED:
            return _complain("interrupted", INTERRUPTED)
        return code if isinstance(code, int) else 0
    except UsageError as error:
        return _misused(error)
    except typer.Abort:
        return _complain("aborted", 1)
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            return _complain("interrupted", INTERRUPTED)
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except EunomiaError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the final flush complains
        return 1
    except ModuleNotFoundError as error:
        return _complain(_missing(error), 1)
    except MemoryError:
        return _complain("out of memory; use fewer workers, a shorter duration_s or fewer requests", 1)
    except OSError as error:
        place = f" '{error.filename}'" if error.filename else ""
        return _complain(f"{error.strerror or error}{place}", 1)


LIBRARIES = {  # extra -> what it brings, as far as a verb needs it
    "serve": (
        "onnxruntime",
        "aiohttp",
        "grpc",
        "tritonclient",
        "prometheus_client",
        "sqlalchemy",
        "alembic",
        "hdrh",
    ),
    "cluster": ("highspy", "clarabel", "scipy"),
    "tracing": ("opentelemetry",),
    "learn": ("torch", "gymnasium", "tensorboard", "cma"),
    "ray": ("ray",),
    "sharing": ("sklearn",),
}


def _missing(error: ModuleNotFoundError) -> str:
    """What to install for a verb whose libraries the light core does not bring; a broken import of ours is raised."""
    library = (error.name or "").partition(".")[0]
    extra = next((extra for extra, brought in LIBRARIES.items() if library in brought), None)
    if extra is None:
        raise error
    return f"this needs {library}, which is not installed: pip install 'eunomia[{extra}]'"


def _misused(error: Exception) -> int:
    """One sentence about a wrong verb, option or value; the help that typer printed where no verb was given."""
    context = getattr(error, "ctx", None)
    said = str(getattr(error, "format_message", error.__str__)())
    option = next(iter(getattr(getattr(error, "param", None), "opts", ())), "")
    following = dict(pairwise(sys.argv))
    if option.startswith("-") and option in following:  # an argument may be called like a verb
        said = f"{option} is '{following[option]}'; {str(error)[:1].lower()}{str(error)[1:].rstrip('.')}"
    if said.startswith("No such option") and "ossible option" not in said and _sets(context):
        said = f"{said.rstrip('.')}; keys of its file are set by --set KEY=VALUE"
    if said.strip():
        path = context.command_path if context is not None else "eunomia"
        said = said if said.endswith("?") else f"{said.rstrip('.')};"
        return _complain(f"{said} {path} -h lists what it takes", MISUSED)
    return MISUSED


def _sets(context: object) -> bool:
    """Whether the verb reads a file whose keys may be set."""
    parameters = getattr(getattr(context, "command", None), "params", ())
    return any("--set" in getattr(parameter, "opts", ()) for parameter in parameters)


def _complain(sentence: str, code: int) -> int:
    sys.stdout.flush()
    for line in sentence.splitlines():
        sys.stderr.write(f"eunomia: {line}\n")
    return code
