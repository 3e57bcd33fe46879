"""``eunomia train``, ``evaluate``, ``export`` and ``policies show``: the life of a learned policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import note, print_json, say, stderr
from eunomia.core.errors import EunomiaError

if TYPE_CHECKING:
    from eunomia.learning.loop import Progress
    from eunomia.study.learning.outcome import Outcome

PolicyCard = Annotated[
    str, typer.Argument(metavar="POLICY", help="A shipped policy, or a checkpoint (.json).")
]


class Stopped(EunomiaError):
    """Ctrl-C in the middle of a training."""

    exit_code = 130


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say after Ctrl-C what is kept. Raises Stopped."""
    try:
        yield
    except KeyboardInterrupt:
        kept = any(folder.glob("*/*.safetensors"))
        raise Stopped(
            f"stopped; what is finished is kept in {folder}, run the same command again to go on"
            if kept
            else "stopped before the first step was finished: nothing is kept, the same command begins anew"
        ) from None


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("train")(bundled(train))
    app.command("evaluate")(evaluate)
    app.command("export")(export)


@dataclass(frozen=True)
class TrainOptions:
    """Options of a training."""

    twin: Annotated[
        Path | None,
        typer.Option("--twin", metavar="FILE", help="Train on a server's recording (eunomia twin record)."),
    ] = None
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for state, curve and policy.")] = (
        None
    )
    workers: opt.Workers = None
    on_ray: Annotated[
        bool, typer.Option("--ray", help="Workers on a Ray cluster: RAY_ADDRESS, or one on this machine.")
    ] = False
    sets: opt.Set = None
    board: Annotated[
        bool, typer.Option("--tensorboard", help="Write a live curve for TensorBoard into the folder.")
    ] = False
    as_json: opt.Json = False
    quiet: opt.Quiet = False

    def command(self, training: Path | None) -> str:
        """What the checkpoint says of the command."""
        words = ["eunomia train", str(training or ""), f"--twin {self.twin.name}" if self.twin else ""]
        return " ".join([word for word in words if word] + [f"--set {text}" for text in self.sets or ()])


def train(
    config: Annotated[
        Path | None, typer.Argument(metavar="TRAINING", help="Training file (TOML); optional with --twin.")
    ] = None,
    *,
    options: TrainOptions,
) -> None:
    """Train a policy. A stopped or killed training goes on where it left off, to the same bits."""
    from eunomia.engines.crew import OnRay
    from eunomia.study.learning.board import Board
    from eunomia.study.learning.train import checked, folder_of, start

    training = checked(config, tuple(options.sets or ()), options.twin)
    folder = options.out or folder_of(training)
    count = options.workers or opt.cores()
    crew = OnRay(count) if options.on_ray else count
    curve = Board(folder) if options.board else None

    def tell(name: str, progress: Progress) -> None:
        if curve is not None:
            curve.add(name, progress.entry)
        if not (options.quiet or options.as_json):
            stderr().print(progress_line(name, progress), soft_wrap=True)

    if not (options.quiet or options.as_json):
        note(f"training '{training.name}' in {folder}; a line follows each iteration")
    with resumable(folder):
        outcome = start(training, folder, options.twin, crew, tell, options.command(config))
    if options.as_json:
        print_json({**outcome.facts(), "path": outcome.path})
        return
    _print_outcome(outcome)


SHOWN = {  # what a line shows of an iteration: name in the curve -> (name in the line, factor, format)
    "mean": ("mean", 100.0, ".2f"),
    "best": ("best", 100.0, ".2f"),
    "points": ("labels", 1.0, ".0f"),
    "hit_rate": ("hit_rate", 1.0, ".4g"),
    "reward": ("reward", 1.0, ".4g"),
    "critic": ("critic", 1.0, ".4g"),
    "loss": ("loss", 1.0, ".4g"),
    "entropy": ("entropy", 1.0, ".4g"),
    "epsilon": ("epsilon", 1.0, ".4g"),
    "sigma": ("sigma", 1.0, ".2f"),
}


def progress_line(name: str, progress: Progress) -> str:
    """``linear 12/60  mean 81.20  best 83.10  sigma 0.31  validation 82.40 (+1.10)  2 min left``, values x 100."""
    entry = progress.entry
    text = f"{name} {entry['iteration']:.0f}/{progress.iterations}"
    for key, (shown, factor, form) in SHOWN.items():
        if key in entry:
            text += f"  {shown} {factor * entry[key]:{form}}"
    if "validation" in entry:
        text += f"  validation {100 * entry['validation']:.2f} ({100 * entry['gain']:+.2f})"
    left = f"{progress.left_s:.0f} s" if progress.left_s < 120.0 else f"{progress.left_s / 60.0:.0f} min"
    return f"{text}  {left} left"


def _print_outcome(outcome: Outcome) -> None:
    facts = outcome.facts()
    began = "" if outcome.kept_heuristic is not None else f"began {100 * facts['start_gain']:+.2f}, "
    say(
        f"validation: {facts['heuristic']} {100 * facts['heuristic_value']:.2f}; {began}learned "
        f"{100 * outcome.gain:+.2f} (standard error {100 * outcome.error:.2f}) after {facts['cpu_s']:.0f} s of "
        "processor time"
    )
    if outcome.remark:
        note(outcome.remark)
    say(f"policy   -> {outcome.path}")
    say(f"evaluate -> eunomia evaluate {outcome.path} SCENARIO")


def evaluate(
    policy: PolicyCard,
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML).")],
    against: opt.Policies = None,
    seeds: opt.Seeds = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """Compare a learned policy with others on a scenario, seed by seed, and say how often its guards acted."""
    from eunomia.cli.experiment import show as print_result
    from eunomia.study.learning.evaluation import evaluate as judge

    changes = [*(sets or ()), *([f"seed={seed}"] if seed is not None else [])]
    result = judge(policy, scenario, against, seeds, changes)
    if as_json:
        print_json(result.facts())
        return
    print_result(result, True, {})
    if result.promised:
        say(
            'train for these promises: promise = "attainment", "shortfall" or "max_min" in a training file '
            "(docs/learning_tenants.md)"
        )


def export(
    policy: PolicyCard,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write: .onnx")],
) -> None:
    """Write a policy's scores as an ONNX network with a free number of sub-jobs."""
    from eunomia.learning.load import checkpoint_of
    from eunomia.study.learning.policy_onnx import write_onnx

    write_onnx(checkpoint_of(policy).weights, path)
    say(f"onnx -> {path}")


def show(policy: str, as_json: bool = False) -> None:
    """Describe the checkpoint of a policy: what it sees, what it was trained on, how it did."""
    from eunomia.learning.load import card_of

    card = card_of(policy)
    if as_json:
        print_json(card)
        return
    validation = card.get("validation", {})
    say(f"{card['name']}: {card['policy']['kind']} policy, features version {card['features']['version']}")
    facts = card["policy"]
    if "place" in facts:
        facts = {"placement": facts["place"], "bandwidth gate": facts["gate"]}
    say(", ".join(f"{name} {value}" for name, value in facts.items()))
    for key in ("command", "trained_on", "hardware", "contention", "late", "cost_tables", "cpu_s"):
        if key in card:
            value = card[key]
            say(f"{key:<12} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    if validation:
        say(
            f"validation   {100 * validation['gain']:+.2f} +-{100 * validation['error']:.2f} over "
            f"{validation['heuristic']} ({100 * validation['heuristic_mean']:.2f}) on {validation['episodes']} episodes"
        )
