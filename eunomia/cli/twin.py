"""``eunomia twin``: a server's own traffic under other policies, before any of them serves."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json, say, stdout
from eunomia.errors import ConfigError, OutputError

app = typer.Typer(help="Record a server's traffic and replay it in the simulator.", no_args_is_help=True)
LIMIT_BYTES = 1024**3


@app.command("record")
def record(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server, e.g. http://127.0.0.1:8000")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the recording.")] = Path(
        "twin.json"
    ),
    key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable with an administrator's key.")
    ] = None,
) -> None:
    """Fetch block times and recent traffic from a running server."""
    from eunomia.atomic import write_text
    from eunomia.experiment.twin import twin_of

    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"'{url}' is no URL of a server; it starts with http:// or https://")
    headers = {}
    if key_env is not None:
        if not os.environ.get(key_env):
            raise ConfigError(f"the environment variable {key_env} is not set")
        headers["Authorization"] = f"Bearer {os.environ[key_env]}"
    request = urllib.request.Request(f"{url.rstrip('/')}/v2/eunomia/twin", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read(LIMIT_BYTES).decode()
    except urllib.error.HTTPError as error:
        raise OutputError(f"{url} refuses: {error.read(500).decode(errors='replace')}") from None
    except (urllib.error.URLError, TimeoutError) as error:
        raise OutputError(f"{url} does not answer: {getattr(error, 'reason', error)}") from None
    twin = twin_of(json.loads(text), url)
    write_text(out, text)
    say(f"{len(twin.requests)} requests of {len(twin.requests.agreements)} pairs -> {out}")


@app.command("predict")
def predict(
    recording: Annotated[Path, typer.Argument(metavar="FILE", help="A recording of `eunomia twin record`.")],
    policy: opt.Policies = None,
    as_json: opt.Json = False,
) -> None:
    """What each policy would have done with the recorded traffic, beside what the server did."""
    from eunomia.experiment.twin import measured, read_twin
    from eunomia.experiment.twin import predict as simulate

    twin = read_twin(recording)
    rows = [measured(twin), *(simulate(twin, name) for name in policy or [twin.policy])]
    names = [f"{a.tenant}, {a.model}" for a in twin.requests.agreements]
    if as_json:
        print_json([
            {"policy": r.name, "hit_rate": r.overall, "pairs": {
                name: {"hit_rate": float(h), "p95_ms": float(p) * 1e3}
                for name, h, p in zip(names, r.hit_rate, r.p95_s, strict=True)}}
            for r in rows
        ])  # fmt: skip
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="")
    table.add_column("policy")
    for name in ("all", *names):
        table.add_column(name, justify="right")
    for r in rows:
        cells = [
            f"{h:.1%} {p * 1e3:.3g} ms" if h == h else "-" for h, p in zip(r.hit_rate, r.p95_s, strict=True)
        ]
        table.add_row(r.name, f"{r.overall:.1%}", *cells)
    stdout().print(table)
    say(f"hit rate and 95th percentile of the response over {len(twin.requests)} recorded requests")
