"""The parts of a study's page that argue: bracket, claim, choices, and whether conclusions survive variations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eunomia.report.study.table import StudyTable, Where
from eunomia.report.study.words import no_ratio, percent, ratios, survives, table_text, times


def bracket(table: StudyTable) -> list[str]:
    """Policy, best schedule found and bound at every place that has a bracket."""
    places = table.bracketed(table.places())
    if not places:
        return []
    best = table.champion if table.champion in table.present(places) else table.ranked(places)[0]
    rows = []
    for where in places:
        limit, row = table.limit(where), table.row(where, best)
        if limit is None or row is None:
            continue
        total = sum(limit.total)
        shares = [100.0 * sum(part) / total for part in (row.hits, limit.found, limit.bound)]
        rows.append(
            [f"{where.workload}, QoS-{where.qos.upper()}, load {where.load:g}", *(f"{x:.1f}" for x in shares)]
        )
    head = ["place", f"{best}, %", "best schedule found, %", "bound, %"]
    said = "Hits on the windows, of all requests. The optimum lies between the last two columns (docs/bounds.md)."
    return ["## The bracket", said + "\n\n" + table_text(head, rows)]


def claim(table: StudyTable) -> list[str]:
    """Ratios of the champion to each rival: mean, and greatest with its place."""
    parts = []
    for grid in table.claim_grids or table.grids[:1]:
        rows = [
            [
                f"`{r.rival}`",
                times(r.mean) + no_ratio(r),
                times(r.most) + no_ratio(r),
                str(r.where),
                percent(r.champion_rate),
                percent(r.rival_rate),
            ]
            for variation in dict.fromkeys(where.variation for where in table.places(grid))
            for r in ratios(_only(table, grid, variation), grid)
        ]
        if rows:
            parts.append(f"### Grid '{grid}'\n\n" + table_text(CLAIM_HEAD, rows))
    if not parts:
        return []
    said = (
        f"SLA satisfaction of {table.champion} over that of each rival: the mean of the ratio over all places "
        f"of a grid, and "
        "the greatest with its place. Where a rival is near zero a ratio says little: the last two columns are "
        "what was "
        "served."
    )
    return ["## The claim in its own terms", said, *parts]


CLAIM_HEAD = ("over", "mean ratio", "greatest ratio", "where", "champion there, %", "rival there, %")


def _only(table: StudyTable, grid: str, variation: str) -> StudyTable:
    """The table with one variation of one grid alone."""
    rows = tuple(row for row in table.rows if (row.where.grid, row.where.variation) == (grid, variation))
    return replace(table, rows=rows)


def choices(table: StudyTable) -> list[str]:
    """How often what was chosen."""
    places = table.places()
    rows = []
    for rival in [name for name in table.rivals if name in table.present(places)]:
        counts: dict[str, int] = {}
        for where in places:
            row = table.row(where, rival)
            if row is not None:
                counts[row.ran] = counts.get(row.ran, 0) + 1
        ordered = sorted(counts, key=lambda name: (-counts[name], name))
        said = ", ".join(f"`{name}` {counts[name]}" for name in ordered[:6])
        more = f", {len(ordered) - 6} more" if len(ordered) > 6 else ""
        rows.append([rival, str(len(table.rivals[rival])), said + more])
    if not rows:
        return []
    head = ("rival", "candidates", "chosen, number of places")
    return ["## What was chosen on validation traces", table_text(head, rows)]


def sensitivity(table: StudyTable, grid: str) -> str:
    """One further grid: hit rates by variation, and what becomes of the champion."""
    places = table.places(grid)
    if not places:
        return ""
    policies = table.ranked(places)
    rows = []
    for label, mine in _slices(places):
        rates = [percent(table.estimate(mine, name)) for name in policies]
        rivals = [name for name in policies if name != table.champion]
        rows.append([label, *rates, survives(table, mine, rivals)])
    sets, levels = {w.workload for w in places}, {w.qos.upper() for w in places}
    loads = sorted({w.load for w in places})
    said = (
        f"Hit rate in %, mean over {', '.join(sorted(sets))}, QoS-{', '.join(sorted(levels))}, load "
        f"{', '.join(f'{load:g}' for load in loads)}. The last column: {table.champion} against the others of "
        f"the row, paired."
    )
    head = ["", *(f"`{name}`" for name in policies), "champion"]
    return f"## Grid '{grid}'\n\n{said}\n\n" + table_text(head, rows)


def _slices(places: Sequence[Where]) -> list[tuple[str, list[Where]]]:
    """Places by variation and bandwidth, in their order."""
    keys = list(dict.fromkeys((where.variation, where.bandwidth_gb_s) for where in places))
    several = len({bandwidth for _, bandwidth in keys}) > 1
    found = []
    for variation, bandwidth in keys:
        label = ", ".join(
            part for part in (variation, f"{bandwidth:g} GB/s" if several or not variation else "") if part
        )
        found.append(
            (label, [w for w in places if (w.variation, w.bandwidth_gb_s) == (variation, bandwidth)])
        )
    return found
