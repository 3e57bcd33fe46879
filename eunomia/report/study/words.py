"""What a study says in sentences: who won, who lost, over whom and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eunomia.metrics.statistics import Estimate
from eunomia.report.study.table import StudyTable, Where


@dataclass(frozen=True)
class Ratio:
    """The champion over one rival: mean over places, and the greatest with the place where it is.

    ``without``: places where the rival serves nothing in some replication. There is no ratio to nothing: the mean
    leaves such replications out, at all places, and the greatest is that of the others.
    """

    rival: str
    mean: Estimate
    most: Estimate
    where: Where
    champion_rate: Estimate
    rival_rate: Estimate
    without: int = 0


def percent(estimate: Estimate, digits: int = 1) -> str:
    """``71.2 ± 0.4``: a share in per cent with half its interval; a dash without data."""
    if estimate.n == 0 or math.isnan(estimate.mean):
        return "-"
    mean = f"{100.0 * estimate.mean:.{digits}f}"
    return f"{mean} ± {100.0 * estimate.half_width:.{digits}f}" if estimate.has_interval else mean


def points(estimate: Estimate) -> str:
    """``+2.1 [1.7, 2.5]``: a difference of shares in percentage points."""
    if estimate.n == 0 or math.isnan(estimate.mean):
        return "-"
    return f"{100.0 * estimate.mean:+.1f} [{100.0 * estimate.low:.1f}, {100.0 * estimate.high:.1f}]"


def times(estimate: Estimate) -> str:
    """``1.42x [1.39, 1.45]``: a ratio."""
    if estimate.n == 0 or math.isnan(estimate.mean):
        return "-"
    interval = f" [{estimate.low:.2f}, {estimate.high:.2f}]" if estimate.has_interval else ""
    return f"{estimate.mean:.2f}x{interval}"


def no_ratio(ratio: Ratio) -> str:
    """``, no ratio at 2 places (rival serves nothing)``; empty where every place has one."""
    return f", no ratio at {plural(ratio.without, 'place')} (rival serves nothing)" if ratio.without else ""


def plural(count: int, one: str) -> str:
    """``1 place``, ``2 places``."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def ratios(table: StudyTable, grid: str | None = None) -> list[Ratio]:
    """The claim: the champion over each rival that ran at all places of a grid."""
    places = table.places(grid)
    present = table.present(places)
    if table.champion is None or table.champion not in present:
        return []
    found = []
    for rival in [name for name in table.claimed if name in present]:
        each = [(table.ratio(where, table.champion, rival), where) for where in places]
        most, where = max(each, key=lambda pair: -1.0 if math.isnan(pair[0].mean) else pair[0].mean)
        mean = table.mean_ratio(places, table.champion, rival)
        rates = [table.estimate([where], name) for name in (table.champion, rival)]
        served = [table.values([place], rival, "hit_rate") for place in places]
        without = sum(any(not rate > 0.0 for rate in rates_here) for rates_here in served)
        found.append(Ratio(rival, mean, most, where, rates[0], rates[1], without))
    return found


def verdict(table: StudyTable) -> list[str]:
    """A few sentences about the main grid; the first is the headline."""
    places = table.places()
    ranked = table.ranked(places)
    if not ranked:
        return ["Nothing ran at all places of the main grid."]
    best, last = ranked[0], ranked[-1]
    said = [
        f"{best} has the highest hit rate: {percent(table.estimate(places, best))} % on average over "
        f"{plural(len(places), 'place')}; {last} has the lowest, {percent(table.estimate(places, last))} %."
    ]
    if len(ranked) > 1:
        gain = table.gain(places, best, ranked[1])
        beyond = "beyond" if gain.excludes_zero else "not beyond"
        said.append(
            f"Ahead of the next, {ranked[1]}, by {points(gain)} points, {beyond} what chance explains."
        )
    plain = next((name for name in ranked if name not in table.rivals), None)
    if plain is not None and plain != best:
        said.append(f"The best without any choosing is {plain}: {percent(table.estimate(places, plain))} %.")
    bracketed = table.bracketed(places)
    champion = table.champion if table.champion in ranked else best
    if bracketed and champion is not None:
        said.append(
            f"On the windows of the bracket {champion} reaches {percent(table.of_found(bracketed, champion))} % of "
            f"the best schedule found and {percent(table.of_bound(bracketed, champion))} % of what nobody can exceed."
        )
    return said + [_claim_sentence(table, ratio) for ratio in ratios(table)]


def _claim_sentence(table: StudyTable, ratio: Ratio) -> str:
    return (
        f"{table.champion} over {ratio.rival}: {times(ratio.mean)} on average over all places of the main grid, "
        f"at most "
        f"{times(ratio.most)} ({ratio.where}: {percent(ratio.champion_rate)} % against "
        f"{percent(ratio.rival_rate)} %){no_ratio(ratio)}."
    )


def survives(table: StudyTable, places: Sequence[Where], rivals: Sequence[str]) -> str:
    """Whether the champion stays ahead of each of these rivals at these places, in a few words."""
    if table.champion is None or table.champion not in table.present(places):
        return "-"
    ahead: list[str] = []
    level: list[str] = []
    behind: list[str] = []
    for rival in rivals:
        gain = table.gain(places, table.champion, rival)
        group = level if not gain.excludes_zero else ahead if gain.mean > 0.0 else behind
        group.append(rival)
    parts = [f"ahead of {len(ahead)}"]
    parts += [f"level with {', '.join(level)}"] if level else []
    parts += [f"behind {', '.join(behind)}"] if behind else []
    return "; ".join(parts)


def table_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column to the left, numbers to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])
