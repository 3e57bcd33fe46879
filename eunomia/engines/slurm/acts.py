"""What is done to a job of Slurm: values, whose commands and text are functions of them.

Every act may be performed twice: a released job is released, a requeue names running jobs only (``Incomplete``: without
it Slurm would run a job again that ended a moment ago), and a second checkpoint signal saves the same once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Command = tuple[str, ...]


@dataclass(frozen=True)
class Act:
    """``job``: its number in Slurm. ``of``: the daemon's name of a job that has several, one for each type of GPU.

    ``again``: it has run before. Slurm kills whom it starts in the second of the requeue ("Job credential revoked").
    """

    does: Literal["start", "signal", "requeue", "hold", "drop"]
    job: str
    why: str
    of: str = ""
    again: bool = False

    @property
    def name(self) -> str:
        """As the daemon calls the job."""
        return self.of or self.job


def commands(act: Act) -> tuple[Command, ...]:
    """What to run, in order."""
    if act.does == "start":  # without StartTime, a requeued job waits until its credential ends, two minutes
        change = (
            "scontrol",
            "update",
            f"JobId={act.job}",
            "StartTime=now+2" if act.again else "StartTime=now",
        )
        return change, ("scontrol", "release", act.job)
    if act.does == "signal":
        return (("scancel", "--signal=USR1", "--batch", act.job),)
    if act.does == "requeue":
        return (("scontrol", "requeuehold", "Incomplete", act.job),)
    if act.does == "drop":
        return (("scancel", "--state=PENDING", act.job),)
    return (("scontrol", "hold", act.job),)


def as_text(plan: Sequence[Act]) -> str:
    """The plan as a shell script would say it, with the reasons."""
    lines = []
    for act in plan:
        lines.append(f"# {act.does} {act.job}: {act.why}" if act.why else f"# {act.does} {act.job}")
        lines += [" ".join(command) for command in commands(act)]
    return "".join(f"{line}\n" for line in lines)
