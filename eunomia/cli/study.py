"""``eunomia study``: the experimental protocol, from a study file to a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import print_json, progress, say
from eunomia.cli.experiment import raise_failures, show
from eunomia.core.atomic import check_writable
from eunomia.core.data import Data

if TYPE_CHECKING:
    from eunomia.study.grid import StudyResult

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML).")]
Page = Annotated[
    Path | None,
    typer.Option(metavar="FILE.md", help="Write the results as Markdown there too, decision times included."),
]
Plan = Annotated[bool, typer.Option("--plan", help="Say how much there is to do, and do nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of another study in that folder.")]


@dataclass(frozen=True)
class StudyOptions:
    """Options of a study."""

    sets: opt.Set = None
    out: opt.Out = None
    workers: opt.Workers = None
    on: opt.On = "processes"
    page: Page = None
    plan: Plan = False
    force: Force = False
    as_json: opt.Json = False
    quiet: opt.Quiet = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("study")(bundled(study))


def study(file: StudyFile, options: StudyOptions) -> None:
    """Run a study: load x QoS x workload x bandwidth x policy, paired. Safe to stop and to start again."""
    from eunomia.cli.outputs import compare_folder
    from eunomia.study.grid import load_study, run_study
    from eunomia.study.grid.plan import total

    checked = load_study(file, options.sets or ())
    amounts = total(checked)
    if options.plan:
        print_json(amounts) if options.as_json else say(
            ", ".join(f"{count} {what}" for what, count in amounts.items())
        )
        return
    if options.page is not None:
        check_writable(options.page)
    folder = options.out or compare_folder(f"study {checked.name}")
    with progress("studying", sum(amounts.values()), options.quiet or options.as_json) as on_done:
        result = run_study(
            checked, folder, options.workers or opt.cores(), on_done, options.force, options.on
        )
    paths = {
        "report": str(folder / "report.html"),
        "results": str(folder / "results.md"),
        "data": str(folder / "study.csv"),
    }
    if options.page is not None:
        paths["page"] = str(_write_page(result, options.page, file))
    _show(result, paths, options.as_json, options.quiet)


def _write_page(result: StudyResult, page: Path, file: Path) -> Path:
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
    title, _, rest = render_markdown(result.found, result.timings).partition("\n\n")
    head = "| command | commit | date | machine |\n| --- | --- | --- | --- |"
    write_text(page, f"{title}\n\n{head}\n| {' | '.join(source)} |\n\n{rest}")
    return page


def _show(result: StudyResult, paths: dict[str, str], as_json: bool, quiet: bool) -> None:
    """The verdict, the overall table, what failed."""
    if as_json:
        print_json({**study_json(result), "paths": paths})
    else:
        show(result, quiet, paths)
    raise_failures(result.failures)


def study_json(result: StudyResult) -> Data:
    """The main grid as data; everything else is in study.json."""
    from eunomia.report.study.words import ratios, verdict

    table = result.found
    places = table.places()
    return {
        "study": table.name,
        "verdict": verdict(table),
        "policies": {name: asdict(table.estimate(places, name)) for name in table.ranked(places)},
        "claim": [{**asdict(ratio), "where": str(ratio.where)} for ratio in ratios(table)],
        "failures": result.failures,
    }
