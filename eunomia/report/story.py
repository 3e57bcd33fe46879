"""An explanation of one request: as a value, and as plain text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import wrap

from eunomia.core.data import Data
from eunomia.report.units import counted, instant, percent, span
from eunomia.report.waits import Wait

_BAR, _WIDE = 28, 110


@dataclass(frozen=True)
class LayerTime:
    """One layer of the request; times in seconds, None = did not happen."""

    layer: int
    name: str
    accelerator: str | None
    ready_s: float
    wait_s: float  # until it started, was dropped, or the run ended
    start_s: float | None
    work_s: float
    stretch_s: float
    switch_s: float


@dataclass(frozen=True)
class Explanation:
    """The story of one request as a value; ``text()`` tells it, ``to_dict()`` is JSON-able."""

    request: int
    tenant: str
    model: str
    policy: str
    seed: int
    outcome: str
    arrival_s: float
    deadline_s: float | None
    finish_s: float | None
    parts: tuple[tuple[str, float], ...]  # queueing, service, contention, switching: seconds
    layers: tuple[LayerTime, ...]
    waits: tuple[Wait, ...]  # longest first
    verdict: str
    needed: tuple[str, ...]  # what would have met the deadline
    decisions: int  # decisions taken while any layer of it waited
    checked: int  # of these, how many were recomputed
    agreed: int  # of these, how many came out as recorded
    doubts: tuple[str, ...]  # what could not be recomputed, and why

    def to_dict(self) -> Data:
        """Plain data."""
        return asdict(self)

    def text(self) -> str:
        """Plain text, at most 110 columns unless names are long."""
        return tell(self)


def tell(e: Explanation) -> str:
    """The whole story, for the terminal."""
    lines = [f"req-{e.request} of {e.tenant} ({e.model}) under {e.policy}, seed {e.seed}: {e.outcome}"]
    due = f", due {instant(e.deadline_s)}" if e.deadline_s is not None else ", without deadline"
    end = ""
    if e.finish_s is not None:
        end = f", {'dropped' if e.outcome == 'dropped' else 'done'} {instant(e.finish_s)}"
    lines.append(f"arrived {instant(e.arrival_s)}{due}{end}")
    lines += ["", e.verdict, *e.needed]
    lines += ["", "Where the time went", *_parts(e), "", "Layer by layer", *_layers(e)]
    for wait in e.waits:
        lines += ["", *_wait(wait)]
    lines += ["", *_trust(e)]
    return "\n".join(lines) + "\n"


def _parts(e: Explanation) -> list[str]:
    total = sum(seconds for _, seconds in e.parts) or 1.0
    return [
        f"  {name:<11}{span(seconds):>10}  {percent(seconds / total):>5}  "
        f"{'#' * round(_BAR * seconds / total)}".rstrip()
        for name, seconds in e.parts
    ]


def _layers(e: Explanation, limit: int = 12) -> list[str]:
    """All layers of a small network; of a large one those that waited and were stretched most."""
    rows = list(e.layers)
    left_out = len(rows) - limit
    if left_out > 0:
        worst = sorted(rows, key=lambda r: -(r.wait_s + r.stretch_s + r.switch_s))[:limit]
        rows = sorted(worst, key=lambda r: r.layer)
    width = max([len(r.name) for r in rows] + [5])
    width = min(width, 28)
    head = f"  {'layer':<{width + 7}}{'on':<14}{'waited':>10}{'service':>10}{'contention':>12}{'switch':>9}"
    lines = [head]
    for r in rows:
        name = r.name if len(r.name) <= width else r.name[: width - 1] + "~"
        lines.append(
            f"  {r.layer:>3}  {name:<{width}}  {r.accelerator or 'never started':<14}{span(r.wait_s):>10}"
            f"{span(r.work_s):>10}{span(r.stretch_s):>12}{span(r.switch_s):>9}"
        )
    if left_out > 0:
        lines.append(f"  ({left_out} further layers lost less time)")
    return lines


def _wait(wait: Wait) -> list[str]:
    when = f"from {instant(wait.from_s)} to {instant(wait.to_s)}"
    lines = [f"Layer {wait.layer} waited {span(wait.wait_s)}, {when}"]
    if wait.held_s > 0.0:
        held = f"for {span(wait.held_s)} of this an idle accelerator would have ended it sooner"
        lines.append(f"  {held}: the policy held it back")
    if wait.holds:
        lines.append(f"  held before {counted(wait.holds, 'decision')}; the last time {wait.held_last}")
    if wait.decisions:
        served = ", ".join(f"{tenant} {count}" for tenant, count in wait.served[:4])
        plural = "decision" if wait.decisions == 1 else "decisions"
        lines.append(f"  {wait.decisions} {plural} went to others: {served}")
        if wait.elsewhere:
            among = "" if wait.looked_at == wait.decisions else f"of {wait.looked_at} looked at: "
            lines.append(
                f"  {among}at {wait.behind} others went first; at {wait.elsewhere} it had no place on what was idle"
            )
        if wait.to_win:
            lines.append(
                f"  to go first every time it would have needed {_article(wait.to_win)} {wait.to_win}"
            )
    else:
        lines.append("  nothing else was started in the meantime")
    for c in wait.choices:
        mark = "" if c.recomputed or c.recorded else " [not recomputed]"
        taken = f"req-{c.request} layer {c.layer} of {c.tenant}"
        lines.append(f"  at {instant(c.time_s)} {c.accelerator} took {taken}:{mark}")
        lines += _lines(c.why, " " * 5)
    if wait.decisions > len(wait.choices):
        lines.append(f"  ({wait.decisions - len(wait.choices)} further decisions not shown)")
    return lines


def _lines(text: str, indent: str = "") -> list[str]:
    """One sentence in lines that fit, names whole."""
    return wrap(
        text,
        _WIDE,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _article(words: str) -> str:
    return "an" if words[:1] in "aeiou" else "a"


def _trust(e: Explanation) -> list[str]:
    lines = [line for doubt in e.doubts for line in _lines(doubt)]
    if e.checked and e.agreed == e.checked:
        plural = "decision" if e.checked == 1 else "decisions"
        number = f"{e.checked}" if e.checked >= e.decisions else f"{e.checked} of {e.decisions}"
        told = f"{number} {plural} taken while it waited, recomputed from the records, all as recorded"
        lines.insert(0, f"Checked: {told}.")
    return lines or ["No decision was taken while it waited."]
