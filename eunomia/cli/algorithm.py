"""``eunomia train`` with a table ``[algorithm]``: progress, curve and outcome of a gradient trainer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eunomia.cli.console import note, print_json, say, stderr

if TYPE_CHECKING:
    from eunomia.config.training import TrainingConfig
    from eunomia.learning.board import Board
    from eunomia.study.learning.algorithms import AlgorithmOutcome, Step

SHOWN = ("hit_rate", "reward", "critic", "loss", "entropy", "epsilon")


def train_with_algorithm(
    config: TrainingConfig, folder: Path, curve: Board | None, command: str, as_json: bool, quiet: bool
) -> None:
    """Train, and say what came of it."""
    assert config.algorithm is not None
    from eunomia.study.learning.algorithms import train_by_algorithm

    name = config.algorithm.name

    def tell(step: Step) -> None:
        if curve is not None:
            numbers = {key: value for key, value in step.entry.items() if key != "iteration"}
            curve.add(name, {"generation": step.entry["iteration"], **numbers})
        if not (quiet or as_json):
            stderr().print(step_line(name, step))

    outcome = train_by_algorithm(config, folder, tell, command)
    facts = algorithm_facts(outcome)
    if as_json:
        print_json(facts)
        return
    say(
        f"validation: {facts['heuristic']} {100 * facts['heuristic_value']:.2f}; "
        f"{name} began {100 * facts['start_gain']:+.2f} and ended {100 * outcome.gain:+.2f} from it "
        f"(standard error {100 * outcome.error:.2f}) after {facts['cpu_s']:.0f} s of processor time"
    )
    if not outcome.gain > outcome.error:
        note(f"it does not beat {facts['heuristic']} by more than the error of the comparison")
    say(f"policy   -> {outcome.path}")
    say(f"evaluate -> eunomia evaluate {outcome.path} SCENARIO")


def step_line(name: str, step: Step) -> str:
    """``td3 4/15  reward 0.82  critic 0.01  validation 92.10  2 min left``; validation x 100."""
    text = f"{name} {step.entry['iteration']:.0f}/{step.iterations}"
    text += "".join(f"  {key} {step.entry[key]:.4g}" for key in SHOWN if key in step.entry)
    if "validation" in step.entry:
        text += f"  validation {100 * step.entry['validation']:.2f}"
    left = f"{step.left_s:.0f} s" if step.left_s < 120.0 else f"{step.left_s / 60.0:.0f} min"
    return f"{text}  {left} left"


def algorithm_facts(outcome: AlgorithmOutcome) -> dict[str, Any]:
    """What came of a training, as plain data."""
    heuristic = float(outcome.heuristic.values.mean())
    return {
        "policy": outcome.name, "heuristic": outcome.heuristic.name, "heuristic_value": heuristic,
        "start_gain": float(outcome.learned.start_values.mean()) - heuristic, "gain": outcome.gain,
        "error": outcome.error, "cpu_s": outcome.learned.cpu_s, "path": outcome.path,
    }  # fmt: skip
