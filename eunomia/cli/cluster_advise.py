"""``eunomia cluster advise``: what each allocator would do with a Slurm cluster now. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import counted, print_json, say
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.cluster.advice import Advised

Saved = Annotated[Path | None, typer.Option(metavar="FILE", help="Saved output; default: run the command.")]


@dataclass(frozen=True)
class AdviseOptions:
    """Options of advice."""

    sinfo: Saved = None
    squeue: Saved = None
    sshare: Saved = None
    policy: opt.Policies = None
    speed: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=FACTOR", help="Relative speed of a GPU; default 1. Repeatable."),
    ] = None
    record: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help="Append this look to a file.")] = (
        None
    )
    as_json: opt.Json = False


@bundled
def advise(options: AdviseOptions) -> None:
    """What each allocator would start, keep and stop on a Slurm cluster now, and why. Reads only."""
    from eunomia.study.cluster import advising

    now = advising.slurm_now(options.sinfo, options.squeue)
    shares = advising.account_shares(options.sshare, live=options.squeue is None)
    found = advising.advice(
        now, options.policy or advising.POLICIES, numbers("--speed", options.speed or [], "a100=2.5"), shares
    )
    record = advising.as_record(now, found)
    if options.record is not None:
        advising.append(options.record, record)
    if options.as_json:
        print_json(record)
        return
    gpus = ", ".join(f"{count} {kind}" for kind, count in now.counts.items())
    running = sum(job.running for job in now.jobs)
    say(
        f"{gpus}; {running} running, {len(now.jobs) - running} waiting, {now.left_out} left out "
        "(no GPU, an array, a type of GPU that there is not, or on a node that is down or drains)"
    )
    for name, advised in found.items():
        differs = [each for each in advised if each.does in ("start", "stop")]
        say(f"{name}: {counted(len(differs), 'difference')} from what Slurm has done")
        for each in differs:
            say(f"  {_line(each)}")


def _line(each: Advised) -> str:
    job = each.job
    where = f" on {each.on}" if each.on else ""
    why = f": {each.why}" if each.why else ""
    return f"{each.does} {job.name} ({job.account}, {counted(job.gpus, 'GPU')}){where}{why}"


def numbers(option: str, texts: list[str], example: str) -> dict[str, float]:
    """``NAME=NUMBER``, each positive. Raises ConfigError."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = 0.0
        if not 0.0 < found[name] < float("inf"):
            raise ConfigError(
                f"{option} {text}: write NAME=NUMBER with a positive number, for example {example}"
            )
    return found
