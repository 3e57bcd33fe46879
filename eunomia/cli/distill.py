"""``eunomia distill`` and ``eunomia rules``: a learned policy as rules that people can read and change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import note, print_json, say, stderr
from eunomia.core.data import Data

if TYPE_CHECKING:
    from eunomia.learning.distill.fitting.fit import FitOptions
    from eunomia.learning.evolve.short import ShortOptions
    from eunomia.study.learning.distilling import Distilled


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("distill")(bundled(distill))
    app.command("rules")(rules)


@dataclass(frozen=True)
class DistillOptions:
    """Options of a distillation."""

    nodes: Annotated[
        int | None,
        typer.Option(help="Most nodes of the formulas: one short rule, tuned in closed loop; 40 is default."),
    ] = None
    generations: Annotated[int | None, typer.Option(help="Generations of that search; 24 is default.")] = None
    leaves: Annotated[
        int,
        typer.Option(
            help="Trees of at most so many leaves together (64 is usual), in place of one short rule."
        ),
    ] = 0
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write: .toml")] = None
    on: Annotated[
        Path | None,
        typer.Option(
            "--on", metavar="FILE", help="Training file or scenario; default: the checkpoint's training file."
        ),
    ] = None
    rounds: Annotated[
        int | None,
        typer.Option(help="Of trees: rounds; from the second on, the rules drive; 3 is default."),
    ] = None
    terms: Annotated[
        int | None,
        typer.Option(
            help="Of trees: most terms of the formula for the order; 0 = the order the policy began with; "
            "8 is default."
        ),
    ] = None
    slope: Annotated[
        int | None,
        typer.Option(
            help="Of trees: most terms of the formula for starting or holding; 0 = a tree instead; "
            "8 is default."
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed.")] = 0
    as_json: opt.Json = False
    quiet: opt.Quiet = False


def distill(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="A shipped policy, or a checkpoint (.json).")
    ],
    options: DistillOptions,
) -> None:
    """Distil a learned policy into one short rule, or into trees, and say what is lost."""
    from eunomia.study.learning.distilling import distil_policy

    tell = None if options.quiet or options.as_json else stderr().print
    done = distil_policy(policy, options.on, options.out, fit_of(options), tell)
    if options.as_json:
        print_json(facts(done))
        return
    _print_result(done)


def fit_of(options: DistillOptions) -> ShortOptions | FitOptions:
    """What is to be fitted. Raises ConfigError for an option of the other form."""
    from eunomia.core.errors import ConfigError
    from eunomia.learning.distill.fitting.fit import FitOptions
    from eunomia.learning.evolve.short import ShortOptions

    def given(*names: str) -> Data:
        return {name: value for name in names if (value := getattr(options, name)) is not None}

    short, trees = given("nodes", "generations"), given("rounds", "terms", "slope")
    if options.leaves:
        for name in short:
            raise ConfigError(
                f"--{name} belongs to one short rule; leave it out, or --leaves {options.leaves}"
            )
        return FitOptions(leaves=options.leaves, seed=options.seed, **trees)
    for name in trees:
        raise ConfigError(f"--{name} belongs to trees; add --leaves 64, or leave it out")
    return ShortOptions(seed=options.seed, **short)


def facts(done: Distilled) -> Data:
    """What came of it, as plain data."""
    means = {name: float(column.mean()) for name, column in done.values.items()}
    return {
        "rules": str(done.path),
        "leaves": done.rules.leaves,
        "nodes": done.rules.nodes,
        "means": means,
        "share_of_gain": done.share,
        "fidelity": done.fidelity,
    }


def _print_result(done: Distilled) -> None:
    from eunomia.learning.evolve.rule import write_rule

    made, means = done.rules.made, facts(done)["means"]
    if done.fidelity:
        say(
            f"{done.rules.leaves} leaves; agreement with {made['teacher']} where the rules lead: "
            f"{', '.join(f'{name} {value:.3f}' for name, value in done.fidelity.items())}"
        )
    else:
        say(f"{done.rules.nodes} nodes\n\n{write_rule(done.rules)}")
    say(
        f"test, {len(done.values['rules'])} traces: {made['heuristic']} {100 * means['heuristic']:.2f}, "
        f"teacher {100 * made['teacher_gain']:+.2f} +-{100 * made['teacher_gain_half_width']:.2f}, "
        f"rules {100 * made['rules_gain']:+.2f} +-{100 * made['rules_gain_half_width']:.2f}"
    )
    if done.share == done.share:
        say(f"share of the teacher's gain in closed loop: {100 * done.share:.0f} %")
    say(f"rules -> {done.path}")
    say(f"read  -> eunomia rules {done.path}")
    say(f"use   -> eunomia run SCENARIO -p {done.path}")


def rules(
    file: Annotated[Path, typer.Argument(metavar="RULES", help="A file of rules (.toml).")],
    as_json: opt.Json = False,
) -> None:
    """Print rules with the meaning and unit of all that they ask; checks a file that was edited."""
    from eunomia.learning.distill.file import glossary, load_rules
    from eunomia.learning.distill.inputs import PARTS, VALUES
    from eunomia.learning.distill.text import to_text
    from eunomia.learning.observation.table import MEANINGS

    found = load_rules(file)
    if as_json:
        print_json(
            {
                "name": found.name,
                "leaves": found.leaves,
                "terms": found.terms,
                "place": found.place,
                "gate": found.gate,
                "rules": {part: to_text(found.trees[part]) for part in PARTS},
                "edited": found.edited,
                "made": found.made,
            }
        )
        return
    size = (
        f"formulas of {found.nodes} nodes" if found.nodes and not found.leaves else f"{found.leaves} leaves"
    )
    say(f"{found.name}: {size}, placement {found.place}, gate {found.gate:g} of the bandwidth")
    say("score of a waiting sub-job =" if found.terms else "score of a waiting sub-job = order")
    for name, value in found.terms.items():
        say(f"  {value:+g} x {name}  ({MEANINGS[name]})")
    for part in PARTS:
        say(f"\n{part}: {VALUES[part]}")
        say("".join(f"  {line}\n" for line in to_text(found.trees[part]).splitlines()).rstrip())
    say("\nwhere")
    for line in glossary(found):
        say(f"  {line}")
    if found.edited:
        note(
            "the rules were changed by hand since they were distilled: figures in [made] are those of the original"
        )
