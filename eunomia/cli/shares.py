"""``eunomia shares``: one device in promised parts, handed out by a token, and the check that they are delivered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import print_json, say
from eunomia.cli.experiment import show
from eunomia.cli.tables import print_table

app = typer.Typer(help="Shares of one device: promised, handed out, verified.", no_args_is_help=True)
Clients = Annotated[
    list[str],
    typer.Argument(
        metavar="CLIENT...", help="NAME=REQUEST[..LIMIT][@MEMORY][:COMMAND], e.g. a=0.3 'b=0.7:./x'."
    ),
]


@dataclass(frozen=True)
class VerifyOptions:
    """Options of ``verify``."""

    theirs: Annotated[bool, typer.Option(help="Only count: somebody else shares the device.")] = False
    system: Annotated[bool, typer.Option(help="No token: the slices of the operating system.")] = False
    seconds: Annotated[float, typer.Option(help="All together; measurements alone come on top.")] = 60.0
    window: Annotated[float, typer.Option(help="Seconds per window.")] = 5.0
    alone: Annotated[float, typer.Option(help="Seconds for each command alone, before and after.")] = 4.0
    start: Annotated[float, typer.Option(help="Patience until a client's first iteration, seconds.")] = 60.0
    core: Annotated[int | None, typer.Option(help="Where clients run; default: the last core.")] = None
    within: Annotated[float, typer.Option(help="Tolerance: 0.03 is 3 points.")] = 0.03
    count: Annotated[
        str | None, typer.Option(metavar="REGEX", help=r"Where lines hold the running count: 'step (\d+)'.")
    ] = None
    adaptation: Annotated[bool, typer.Option(help="Quotas follow the bursts.")] = True
    charging: Annotated[bool, typer.Option(help="Overuse is charged.")] = True
    as_json: opt.Json = False


@app.command("verify")
@bundled
def verify(clients: Clients, options: VerifyOptions) -> None:
    """Run clients on one core and compare what each got with what it was promised. Exit status 1: not kept."""
    from eunomia.core.errors import ConfigError, EunomiaError
    from eunomia.sharing.shares import ShareRules
    from eunomia.study.sharing.verify import VerifyStudy, parse_client, run_verify

    if options.theirs and options.system:
        raise ConfigError("--theirs and --system exclude each other; give one, or none for the token")
    mode = "theirs" if options.theirs else "system" if options.system else "token"
    rules = ShareRules(adapts=options.adaptation, charges_overuse=options.charging)
    span = {"seconds": options.seconds, "window_s": options.window, "alone_s": options.alone}
    where = {"core": options.core, "within": options.within, "count": options.count, "start_s": options.start}
    study = VerifyStudy(tuple(map(parse_client, clients)), mode, **span, **where, rules=rules)  # type: ignore[arg-type]
    found = run_verify(study)
    if options.as_json:
        print_json(
            {
                "mode": study.mode,
                "drift": found.drift,
                "said": found.sentences(),
                "windows": found.rows(),
                "broken": found.faults(),
            }
        )
    else:
        show(found, True, {})
        windows = found.windows()
        print_table(windows.header, windows.rows, windows.right)
    if faults := found.faults():
        raise EunomiaError("\n".join(faults))


@app.command()
def serve(
    clients: Clients,
    socket: Annotated[Path, typer.Option(metavar="PATH", help="Where to listen.")] = Path("token.sock"),
) -> None:
    """Hand out a token to your own programs, which ask for it through ``eunomia.sharing.shares.token``."""
    import asyncio

    from eunomia.sharing.shares.serve import serve_token
    from eunomia.study.sharing.verify import parse_client

    specs = [parse_client(text).spec for text in clients]
    asyncio.run(serve_token(specs, socket, say))


@app.command()
def place(
    clients: Annotated[
        Path, typer.Argument(metavar="CLIENTS.toml", help="[client.NAME] with request, labels.")
    ],
    devices: Annotated[int, typer.Option(min=1, help="How many there are.")] = 8,
    memory: Annotated[int | None, typer.Option(min=1, help="Bytes of each; default: not counted.")] = None,
    as_json: opt.Json = False,
) -> None:
    """The device of each client by labels and tightest fit, with exclusion labels and without."""
    from eunomia.sharing.shares.place import place_all, read_clients

    asked = read_clients(clients)
    ways = {"device": True, "without exclusion": False}
    found = {way: place_all(asked, devices, memory, exclusion) for way, exclusion in ways.items()}
    if as_json:
        print_json({"clients": [one.spec.name for one in asked], **found})
        return
    columns = [["waits" if n is None else f"{n}" for n in where] for where in found.values()]
    rows = [
        (one.spec.name, f"{one.spec.request:.0%}", *cells)
        for one, *cells in zip(asked, *columns, strict=True)
    ]
    print_table(("client", "request", *found), rows, range(1, 4))
    used = {way: len({n for n in where if n is not None}) for way, where in found.items()}
    say(f"{used['device']} devices, {used['without exclusion']} without exclusion labels")


@app.command()
def slices(
    network: Annotated[
        list[Path], typer.Argument(metavar="NETWORK.onnx...", help="Several are dealt to the jobs in turn.")
    ],
    weights: Annotated[str, typer.Option(help="One per job, e.g. 1,1,2.")] = "1,1,1,1",
    runs: Annotated[int, typer.Option(help="Inferences per job.")] = 100,
    repeats: Annotated[int, typer.Option(help="Measurements of each quantum.")] = 4,
    as_json: opt.Json = False,
) -> None:
    """Threads of ONNX blocks on one core in turns of 0.5 to 16 ms, beside ungated threads and one job at a time."""
    from eunomia.core.errors import ConfigError
    from eunomia.study.sharing.slices_live import SliceStudy, run_live_slices

    try:
        each = tuple(map(float, weights.split(",")))
    except ValueError:
        raise ConfigError(f"--weights {weights}: numbers with commas between them, e.g. 1,1,2") from None
    found = run_live_slices(SliceStudy(network[0], each, runs, repeats=repeats, beside=tuple(network[1:])))
    if as_json:
        print_json(found.as_table())
    else:
        show(found, True, {})


@app.command()
def simulate(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="First seed.")] = 0,
    as_json: opt.Json = False,
) -> None:
    """The token in virtual time beside its ablations: shares, limits and idle time under bursts of many lengths."""
    from eunomia.study.sharing.shares import run_shares

    found = run_shares(tuple(range(seed, seed + seeds)))
    if as_json:
        print_json(found.as_table())
    else:
        show(found, True, {})
