"""``eunomia twin``: a server's own traffic under other policies, before any of them serves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.admin import KeyEnv, Url, ask
from eunomia.cli.console import counted, note, print_json, say, stderr, stdout
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eunomia.study.serving.twin import Twin
    from eunomia.study.serving.twin_predict import Prediction

FAR_HITS, FAR_P95 = 0.02, 0.10  # from here on a prediction is called off: two points, and a tenth
GAP = 2  # blanks between two columns
ENOUGH = 20  # requests: of fewer, a hit rate says nothing

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

    from eunomia.core.atomic import write_text
    from eunomia.study.serving.twin import twin_of

    content = ask(url, "/v2/eunomia/twin", key_env)
    twin = twin_of(content, url)
    write_text(out, json.dumps(content))
    note_left_out(twin)
    requests, pairs = counted(len(twin.requests), "request"), counted(len(twin.requests.agreements), "pair")
    say(f"{requests} of {pairs} -> {out}")


@app.command("predict")
def predict(
    recording: Annotated[Path, typer.Argument(metavar="FILE", help="A recording of `eunomia twin record`.")],
    policy: opt.Policies = None,
    last: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Only what came in the recording's last seconds.", min=0.0),
    ] = float("inf"),
    as_json: opt.Json = False,
) -> None:
    """What each policy would have done with the recorded traffic, beside what the server did.

    The server's own dispatcher replays the recording, its last 10,000 requests at most.
    """
    import numpy as np

    from eunomia.study.serving.twin import read_twin
    from eunomia.study.serving.twin_part import latest
    from eunomia.study.serving.twin_predict import measured

    whole = read_twin(recording)
    twin = latest(whole, last)
    names = [f"{a.tenant}, {a.model}" for a in twin.requests.agreements]
    asked = policy or [twin.policy]
    if not as_json and stderr().is_terminal:
        stderr().print(f"replaying under {counted(len(asked), 'policy', 'policies')}; each is compiled once")
    if len(twin.requests) < len(whole.requests):
        few = f"; fewer than {ENOUGH} say nothing" if len(twin.requests) < ENOUGH else ""
        note(f"the last {len(twin.requests)} of {len(whole.requests)} requests are replayed{few}")
    note_waiting(twin)
    note_endless(twin, names)
    found, silent = _replayed(twin, asked)
    rows = [measured(twin), *found.values()]
    told = found.get(twin.policy) if twin.policy in asked else _served(twin)
    note_left_out(twin)
    counts = np.bincount(twin.requests.pair, minlength=len(names)).tolist()
    warning = "" if told is None else off_by(rows[0], told, names, counts)
    if warning:
        note(warning)
    for r in rows:
        if r.failed:
            note(
                f"{r.name}: the fallback decided {r.failed} times in its place: it raised, answered illegally or held"
            )
    if as_json:
        _print_json(rows, names)
    else:
        _print_table(rows, names, len(twin.requests))
    if silent:
        raise ConfigError("\n".join(silent))


def _replayed(twin: Twin, asked: Sequence[str]) -> tuple[dict[str, Prediction], list[str]]:
    """The predictions of the policies that answer, by name; a sentence on each of the others."""
    from eunomia.study.serving.apart import NoAnswer, apart
    from eunomia.study.serving.twin_predict import predict as simulate

    found, silent = dict[str, "Prediction"](), list[str]()
    for name in asked:
        try:
            found[name] = apart(simulate, twin, name)
        except NoAnswer as error:
            silent.append(str(error))
    return found, silent


def _print_json(rows: Sequence[Prediction], names: Sequence[str]) -> None:
    print_json([
        {"policy": r.name, "hit_rate": r.overall, "failed": r.failed, "pairs": {
            names[n]: {"hit_rate": float(r.hit_rate[n]), "p95_ms": float(r.p95_s[n]) * 1e3} for n in _order(names)}}
        for r in rows
    ])  # fmt: skip


def _order(names: Sequence[str]) -> list[int]:
    """Of the pairs' columns: by name, as recordings have them by their first requests."""
    return sorted(range(len(names)), key=names.__getitem__)


def _print_table(rows: Sequence[Prediction], names: Sequence[str], requests: int) -> None:
    """A line for each policy; where those are too long, one for each pair, the policies in as many tables as needed."""
    order, width = _order(names), stdout().width
    columns = ["all", *(names[n] for n in order)]
    cells = [[f"{r.overall:.1%}", *(_cell(r.hit_rate[n], r.p95_s[n]) for n in order)] for r in rows]
    across = [["policy", *columns], *([r.name, *told] for r, told in zip(rows, cells, strict=True))]
    if sum(_widths(across)) <= width + GAP:
        _draw(across)
    else:
        down = [list(line) for line in zip(*across, strict=True)]
        down[0][0] = "tenant, network"
        for count, part in enumerate(_parts(_widths(down), width)):
            if count:
                say()
            _draw([[line[n] for n in part] for line in down])
    read = "from a request that is read to its answer that is ready"
    say(f"hit rate, and 95th percentile of the response ({read}), over {requests} recorded requests")


def _cell(hit_rate: float, p95_s: float) -> str:
    return f"{hit_rate:.1%} {_ms(p95_s)}" if hit_rate == hit_rate else "-"


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """Of each column, with the blanks before the next."""
    return [max(map(len, column)) + GAP for column in zip(*lines, strict=True)]


def _parts(widths: Sequence[int], most: int) -> list[list[int]]:
    """Columns that fit beside each other: in each part the names, what was recorded, and at least one policy."""
    first = [0, 1]
    parts = [first.copy()]
    for n in range(2, len(widths)):
        if len(parts[-1]) > len(first) and sum(widths[k] for k in (*parts[-1], n)) > most + GAP:
            parts.append(first.copy())
        parts[-1].append(n)
    return parts


def _draw(lines: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="")
    for n, header in enumerate(lines[0]):
        table.add_column(header, justify="right" if n else "left", overflow="fold")
    for line in lines[1:]:
        table.add_row(*line)
    stdout().print(table)


@app.command("scenario")
def scenario(
    recording: Annotated[Path, typer.Argument(metavar="FILE", help="A recording of `eunomia twin record`.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for scenario, trace and costs.")] = Path(
        "recorded"
    ),
) -> None:
    """Turn a recording into a scenario, which `run`, `compare` and `plan` take."""
    from eunomia.core.errors import OutputError
    from eunomia.study.serving.twin import read_twin
    from eunomia.study.serving.twin_scenario import FILES, PIECES, write_scenario

    twin = read_twin(recording)
    for name in FILES:
        if (out / name).exists():
            raise OutputError(f"'{out / name}' exists already; name another folder with --out")
    paths = write_scenario(twin, out)
    note_left_out(twin)
    for what, path in paths.items():
        say(f"{what:<9}-> {path}")
    say(f"each seed replays a part of 1/{PIECES} of the recording, from a time of its own")


def _served(twin: Twin) -> Prediction | None:
    """The prediction for the policy that served; None where only the server has it."""
    from eunomia.core.errors import EunomiaError
    from eunomia.study.serving.apart import apart
    from eunomia.study.serving.twin_predict import predict as simulate

    try:
        return apart(simulate, twin, twin.policy)
    except EunomiaError:
        return None


def note_left_out(twin: Twin) -> None:
    """Say so when a recording has requests of networks whose costs it does not hold."""
    if twin.left_out:
        lost = ", ".join(f"'{name:.100}' ({count})" for name, count in twin.left_out.items())
        note(f"requests left out, for the recording holds no block times of their networks: {lost}")


def note_waiting(twin: Twin) -> None:
    """Say whose clients were found to wait for their answers, as that decides when their requests come."""
    from eunomia.study.serving.twin_clients import clients_of

    pairs = twin.requests.agreements
    if twin.server is not None and (found := clients_of(twin).waiting(twin.requests.pair)):
        names = "; ".join(f"{pairs[n].tenant:.50}, {pairs[n].model:.50}" for n in found)
        note(f"clients that wait for an answer before they send again, here as well: {names}")


def note_endless(twin: Twin, names: Sequence[str]) -> None:
    """Say whose hits are no achievement: the server, too, counts any answer of theirs."""
    due_s, pair = twin.requests.relative_deadline_s, twin.requests.pair
    endless = [
        names[n] for n in _order(names) if (pair == n).any() and (due_s[pair == n] == float("inf")).all()
    ]
    if endless:
        note(
            f"requests without a deadline, of which any answer is a hit, also in 'all': {'; '.join(endless)}"
        )


def off_by(server: Prediction, told: Prediction, names: Sequence[str], counts: Sequence[int]) -> str:
    """How far the prediction for the policy that served is from what was recorded; empty when it is close.

    ``counts``: requests of each pair; pairs with fewer than ``ENOUGH`` are not looked at.
    """
    far = []
    for n, name in enumerate(names):
        if counts[n] < ENOUGH:
            continue
        was, will = float(server.hit_rate[n]), float(told.hit_rate[n])
        took_s, takes_s = float(server.p95_s[n]), float(told.p95_s[n])
        apart = max(
            abs(will - was) / FAR_HITS, abs(takes_s / took_s - 1.0) / FAR_P95 if took_s > 0.0 else 0.0
        )
        # Not a number, where nothing was sent or answered, compares as close.
        if abs(will - was) > FAR_HITS or abs(takes_s - took_s) > FAR_P95 * took_s:
            far.append((apart, f"{name} ({counts[n]} requests): hits {was:.1%} recorded, {will:.1%} predicted; "
                               f"p95 {_ms(took_s)} recorded, {_ms(takes_s)} predicted"))  # fmt: skip
    if not far:
        return ""
    looked_at = sum(count >= ENOUGH for count in counts)
    few = f" with {ENOUGH} requests or more" if looked_at < len(names) else ""
    return (
        f"the twin is off for {len(far)} of {looked_at} pairs{few} under {told.name}, which served them; the worst, "
        f"{max(far)[1]}: compare its policies with each other rather than with the server"
    )


def _ms(time_s: float) -> str:
    """Three digits, or all before the point: ``1.23 ms``, ``1030 ms``; ``-`` for none."""
    time_ms = time_s * 1e3
    if time_ms != time_ms:
        return "-"
    return f"{time_ms:.0f} ms" if time_ms >= 100.0 else f"{time_ms:.3g} ms"
