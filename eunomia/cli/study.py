"""``eunomia study``: the experimental protocol, from a study file to a report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json, progress, say
from eunomia.core.atomic import check_writable

if TYPE_CHECKING:
    from eunomia.study.grid import StudyRun

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML).")]
Page = Annotated[
    Path | None,
    typer.Option(metavar="FILE.md", help="Write the results as Markdown there too, decision times included."),
]
Plan = Annotated[bool, typer.Option("--plan", help="Say how much there is to do, and do nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of another study in that folder.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("study")(study)


def study(
    file: StudyFile,
    sets: opt.Set = None,
    out: opt.Out = None,
    workers: opt.Workers = None,
    page: Page = None,
    plan: Plan = False,
    force: Force = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Run a study: load x QoS x workload x bandwidth x policy, paired. Safe to stop and to start again."""
    from eunomia.cli.outputs import compare_folder
    from eunomia.study.grid import load_study, run_study
    from eunomia.study.grid.plan import total

    checked = load_study(file, sets or ())
    amounts = total(checked)
    if plan:
        print_json(amounts) if as_json else say(
            ", ".join(f"{count} {what}" for what, count in amounts.items())
        )
        return
    if page is not None:
        check_writable(page)
    folder = out or compare_folder(f"study {checked.name}")
    with progress("studying", sum(amounts.values()), quiet or as_json) as on_done:
        result = run_study(checked, folder, workers or opt.cores(), on_done, force)
    paths = {
        "report": str(folder / "report.html"),
        "results": str(folder / "results.md"),
        "data": str(folder / "study.csv"),
    }
    if page is not None:
        paths["page"] = str(_write_page(result, page, file))
    _show(result, paths, as_json, quiet)


def _write_page(result: StudyRun, page: Path, file: Path) -> Path:
    """The page; below its title stand command, commit, date and machine, as on every page of results."""
    from datetime import date

    from eunomia.core.atomic import write_text
    from eunomia.core.provenance import environment
    from eunomia.report.study.markdown import render_markdown

    facts = environment()
    machine = "{processor}, {cores} cores".format(**facts["machine"])
    source = (
        f"`eunomia study {file} --page {page}`",
        str(facts["commit"])[:7],
        date.today().isoformat(),
        machine,
    )
    title, _, rest = render_markdown(result.table, result.timings).partition("\n\n")
    head = "| command | commit | date | machine |\n| --- | --- | --- | --- |"
    write_text(page, f"{title}\n\n{head}\n| {' | '.join(source)} |\n\n{rest}")
    return page


def _show(result: StudyRun, paths: dict[str, str], as_json: bool, quiet: bool) -> None:
    """The verdict, the overall table, what failed."""
    from eunomia.core.errors import EunomiaError

    if as_json:
        print_json({**study_json(result), "paths": paths})
    else:
        print_study(result)
        if not quiet:
            say()
            for what, path in paths.items():
                say(f"{what:<9}-> {path}")
    if result.failures:
        raise EunomiaError("\n".join(f"failed: {name}: {why}" for name, why in result.failures.items()))


def study_json(result: StudyRun) -> dict[str, Any]:
    """The main grid as data; everything else is in study.json."""
    from eunomia.report.study.words import ratios, verdict

    table = result.table
    places = table.places()
    return {
        "study": table.name,
        "verdict": verdict(table),
        "policies": {name: asdict(table.estimate(places, name)) for name in table.ranked(places)},
        "claim": [{**asdict(ratio), "where": str(ratio.where)} for ratio in ratios(table)],
        "failures": result.failures,
    }


def print_study(result: StudyRun) -> None:
    """One row per policy over the main grid, then what it says."""
    from eunomia.cli.tables import print_table
    from eunomia.report.study.words import percent, points, verdict

    table = result.table
    places, champion = table.places(), table.champion
    compared = champion is not None and champion in table.present(places)
    headers = ["policy", "in time, %", "worst tenant, %", "Jain"]
    headers += [f"against {champion}, points"] if compared else []
    bracketed = table.bracketed(places)
    headers += ["of best found, %"] if bracketed else []
    rows = []
    for name in table.ranked(places):
        row = [name, *(percent(table.estimate(places, name, key)) for key in ("hit_rate", "worst_tenant"))]
        row += [f"{table.estimate(places, name, 'jain_hit_rate').mean:.3f}"]
        row += [
            points(table.gain(places, name, champion)) if champion and name != champion else ""
        ] * compared
        row += [percent(table.of_found(places, name))] if bracketed else []
        rows.append(row)
    print_table(headers, rows, right=range(1, len(headers)))
    say()
    for sentence in verdict(table):
        say(sentence)
