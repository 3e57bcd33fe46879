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
    """``kind``, ``per_node``, ``nodes``: for a start, another type to be asked for and how many; "" = as the job says.

    ``by_job``: the job asks for GPUs in all, not per node.
    """

    does: Literal["start", "signal", "requeue", "hold"]
    job: str
    why: str
    kind: str = ""
    per_node: int = 0
    nodes: int = 1
    by_job: bool = False


def commands(act: Act) -> tuple[Command, ...]:
    """What to run, in order."""
    if (
        act.does == "start"
    ):  # without StartTime, a requeued job waits as long as its credential lasts, two minutes
        change = ["scontrol", "update", f"JobId={act.job}", "StartTime=now"]
        if act.kind:
            change += _another_type(act)
        return tuple(change), ("scontrol", "release", act.job)
    if act.does == "signal":
        return (("scancel", "--signal=USR1", "--batch", act.job),)
    if act.does == "requeue":
        return (("scontrol", "requeuehold", "Incomplete", act.job),)
    return (("scontrol", "hold", act.job),)


def _another_type(act: Act) -> tuple[str, str]:
    """Words of an update that names another type.

    Slurm 22.05 adds a new type to the old and gives the job both, unless the same update empties the old wish. So the
    wish changes sides between per node and in all.
    """
    if act.by_job:
        return "TresPerJob=", f"TresPerNode=gres:gpu:{act.kind}:{act.per_node}"
    return "TresPerNode=", f"TresPerJob=gres:gpu:{act.kind}:{act.per_node * act.nodes}"


def as_text(plan: Sequence[Act]) -> str:
    """The plan as a shell script would say it, with the reasons."""
    lines = []
    for act in plan:
        lines.append(f"# {act.does} {act.job}: {act.why}" if act.why else f"# {act.does} {act.job}")
        lines += [" ".join(command) for command in commands(act)]
    return "".join(f"{line}\n" for line in lines)
