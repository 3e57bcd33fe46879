"""``eunomia evolve``: a rule found by genetic programming, or the figures of a rule that another program wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import note, print_json, say, stderr
from eunomia.cli.learn import progress_line, resumable
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.learning.loop import Progress
    from eunomia.study.learning.evolving import Evolved


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("evolve")(bundled(evolve))


@dataclass(frozen=True)
class EvolveOptions:
    """Options of a search."""

    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for state, rule and archive.")] = (
        None
    )
    generations: Annotated[int, typer.Option(help="Generations; raise it to go on.")] = 40
    population: Annotated[int, typer.Option(help="Rules per generation.")] = 32
    episodes: Annotated[int, typer.Option(help="Episodes per generation.")] = 8
    nodes: Annotated[int, typer.Option(help="Most nodes of a rule.")] = 40
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0
    workers: opt.Workers = None
    judged: Annotated[
        Path | None,
        typer.Option(
            "--evaluate", metavar="RULE.txt", help="Search nothing: figures of this rule on the scenario."
        ),
    ] = None
    seeds: Annotated[int, typer.Option(help="With --evaluate: seeds.")] = 5
    seconds: Annotated[float, typer.Option(help="With --evaluate: time limit.")] = 60.0
    memory: Annotated[float, typer.Option(metavar="GB", help="With --evaluate: memory limit.")] = 8.0
    as_json: opt.Json = False
    quiet: opt.Quiet = False


def evolve(
    on: Annotated[Path, typer.Argument(metavar="FILE", help="Training file, or scenario.")],
    options: EvolveOptions,
) -> None:
    """Search a rule by genetic programming. A stopped search goes on where it left off."""
    if options.judged is not None:
        _judge(options.judged, on, options)
        return
    from eunomia.config.evolve import settings_of
    from eunomia.study.learning.evolving import evolve as search
    from eunomia.study.learning.evolving import folder_of

    names = ("generations", "population", "episodes", "nodes", "seed")
    settings = settings_of({name: getattr(options, name) for name in names})
    folder = options.out or folder_of(on)

    def tell(progress: Progress) -> None:
        entry = progress.entry
        size = f"  {entry['nodes']:.0f} nodes, {entry['archive']:.0f} in the archive"
        stderr().print(progress_line("evolve", progress) + size, soft_wrap=True)

    silent = options.quiet or options.as_json
    if not silent:
        note(f"searching in {folder}; a line follows each generation")
    with resumable(folder):
        found = search(
            on, folder, settings, workers=options.workers or opt.cores(), tell=None if silent else tell
        )
    if options.as_json:
        print_json(found.facts())
        return
    _print_result(found)


def _print_result(found: Evolved) -> None:
    told = found.facts()
    say(
        f"validation: {told['heuristic']} {100 * told['heuristic_value']:.2f}, evolved {100 * told['gain']:+.2f} "
        f"(standard error {100 * told['error']:.2f}) after {told['cpu_s']:.0f} s of processor time"
    )
    if found.kept_heuristic:
        note("nothing was found beyond the error of the comparison: the rule is the known one")
    say(
        f"fresh, {told['fresh_traces']} traces: {100 * told['fresh_gain']:+.2f} +-{100 * told['fresh_half_width']:.2f}"
    )
    say(f"\n{told['rule']}")
    say(f"rule    -> {told['path']}   (formula with units: eunomia rules {told['path']})")
    say(f"archive -> {told['archive']}")
    say(f"use     -> eunomia run SCENARIO -p {told['path']}")


def _judge(rule: Path, scenario: Path, options: EvolveOptions) -> None:
    """Figures of a rule on a scenario."""
    from eunomia.study.learning.judging import evaluate_rule

    try:
        text = rule.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read {rule}: {error}; give a text file such as: order = -time_left"
        ) from None
    told = evaluate_rule(text, scenario, options.seeds, options.seconds, memory_gb=options.memory)
    if options.as_json:
        print_json(told)
        return
    say(f"{told['nodes']} nodes, {told['seeds']} seeds, {told['took_s']} s; gain over {told['against']}")
    for name, figure in told["figures"].items():
        if figure is not None:
            say(f"  {name:<16} {100 * figure['mean']:8.2f} +-{100 * figure['half_width']:.2f}")
