"""``eunomia twin``: a server's own traffic under other policies, before any of them serves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.admin import KeyEnv, Url, ask
from eunomia.cli.console import note, print_json, say, stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eunomia.experiment.twin import Prediction, Twin

FAR_HITS, FAR_P95 = 0.02, 0.10  # from here on a prediction is called off: two points, and a tenth

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
    names = [f"{a.tenant}, {a.model}" for a in twin.requests.agreements]
    asked = policy or [twin.policy]
    rows = [measured(twin), *(simulate(twin, name) for name in asked)]
    told = rows[1 + asked.index(twin.policy)] if twin.policy in asked else _served(twin)
    warning = "" if told is None else off_by(rows[0], told, names)
    if warning:
        note(warning)
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


def _served(twin: Twin) -> Prediction | None:
    """The prediction for the policy that served; None where only the server has it."""
    from eunomia.errors import EunomiaError
    from eunomia.experiment.twin import predict as simulate

    try:
        return simulate(twin, twin.policy)
    except EunomiaError:
        return None


def off_by(server: Prediction, told: Prediction, names: Sequence[str]) -> str:
    """How far the prediction for the policy that served is from what was recorded; empty when it is close."""
    far = []
    for n, name in enumerate(names):
        was, will = float(server.hit_rate[n]), float(told.hit_rate[n])
        took_s, takes_s = float(server.p95_s[n]), float(told.p95_s[n])
        apart = max(
            abs(will - was) / FAR_HITS, abs(takes_s / took_s - 1.0) / FAR_P95 if took_s > 0.0 else 0.0
        )
        # Not a number, where nothing was sent or answered, compares as close.
        if abs(will - was) > FAR_HITS or abs(takes_s - took_s) > FAR_P95 * took_s:
            far.append((apart, f"{name}: hits {was:.1%} recorded, {will:.1%} predicted; p95 {took_s * 1e3:.3g} ms "
                               f"recorded, {takes_s * 1e3:.3g} ms predicted"))  # fmt: skip
    if not far:
        return ""
    return (
        f"the twin is off for {len(far)} of {len(names)} pairs under {told.name}, which served them; the worst, "
        f"{max(far)[1]}: compare its policies with each other rather than with the server"
    )
