"""``eunomia twin``: a server's own traffic under other policies, before any of them serves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.admin import KeyEnv, Url, ask
from eunomia.cli.console import print_json, say, stdout

app = typer.Typer(help="Record a server's traffic and replay it in the simulator.", no_args_is_help=True)


@app.command("record")
def record(
    url: Url,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the recording.")] = Path(
        "twin.json"
    ),
    key_env: KeyEnv = None,
) -> None:
    """Fetch block times and recent traffic from a running server."""
    import json

    from eunomia.atomic import write_text
    from eunomia.experiment.twin import twin_of

    content = ask(url, "/v2/eunomia/twin", key_env)
    twin = twin_of(content, url)
    write_text(out, json.dumps(content))
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
