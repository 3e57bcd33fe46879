"""An explanation as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eunomia.report.units import instant, percent, span

if TYPE_CHECKING:
    from eunomia.report.explain import Explanation, Wait

_BAR = 28


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
    head = f"  {'layer':<{width + 7}}{'on':<14}{'waited':>10}{'computed':>10}{'contention':>12}{'switch':>9}"
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
        held = f"for {span(wait.held_s)} of this an accelerator able to run it stood idle"
        lines.append(f"  {held}: the policy held it back")
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
        mark = "" if c.recomputed else " [not recomputed]"
        taken = f"req-{c.request} layer {c.layer} of {c.tenant}"
        lines.append(f"  at {instant(c.time_s)} {c.accelerator} took {taken}:{mark}")
        lines.append(f"     {c.why}")
    if wait.decisions > len(wait.choices):
        lines.append(f"  ({wait.decisions - len(wait.choices)} further decisions not shown)")
    return lines


def _article(words: str) -> str:
    return "an" if words[:1] in "aeiou" else "a"


def _trust(e: Explanation) -> list[str]:
    lines = list(e.doubts)
    if e.checked and e.agreed == e.checked:
        plural = "decision" if e.checked == 1 else "decisions"
        number = f"{e.checked}" if e.checked >= e.decisions else f"{e.checked} of {e.decisions}"
        told = f"{number} {plural} taken while it waited, recomputed from the records, all as recorded"
        lines.insert(0, f"Checked: {told}.")
    return lines or ["No decision was taken while it waited."]
