"""A Slurm of scripts: ``squeue``, ``sinfo``, ``scontrol`` and ``scancel`` on one JSON file, with the real ones' ways.

What it copies was seen with Slurm 22.05: a requeue without ``Incomplete`` runs an ended job again, a requeued job is
held, its submission moves, and its start waits for ``StartTime=now``. A released job starts when its GPUs are free.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

COUNTS = {"a100": 2, "t4": 4}
FORMAT = (
    "{job}|{account}|u|{partition}|{state}|{submit}|1:00:00|{used}|1|cpu=1|{per_node}|{per_job}|{node}|"
    "{start}|0|{restarts}|{priority}"
)


def run(name: str, words: list[str], world: dict[str, Any]) -> str:
    """One command: what it prints. Raises SystemExit as the command would fail."""
    if world.get("away"):
        sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    out = COMMANDS[name](world, words)
    settle(world)
    return out


def main(name: str, words: list[str], path: Path) -> str:
    """The same on a file."""
    world = json.loads(path.read_text())
    out = run(name, words, world)
    stage = path.with_suffix(".part")
    stage.write_text(json.dumps(world))
    stage.replace(path)
    return out


def settle(world: dict[str, Any]) -> None:
    """Released jobs start where they fit, in order."""
    free = dict(COUNTS)
    for job in world["jobs"].values():
        if job["state"] == "RUNNING":
            free[job["kind"]] -= job["gpus"]
    for job in world["jobs"].values():
        if job["state"] == "PENDING" and job["priority"] and job["now"] and job["gpus"] <= free[job["kind"]]:
            free[job["kind"]] -= job["gpus"]
            job.update(state="RUNNING", began=world["now"], starts=job["starts"] + 1)


def sinfo(world: dict[str, Any], words: list[str]) -> str:
    return "vm|idle|" + ",".join(f"gpu:{kind}:{count}" for kind, count in COUNTS.items())


def squeue(world: dict[str, Any], words: list[str]) -> str:
    if "-p" in words:
        here = {name: job for name, job in world["jobs"].items() if job["state"] in ("PENDING", "RUNNING")}
        return "".join(
            f"{name:40}{'u':40}{job.get('comment', '(null)')[:91]:91}\n" for name, job in here.items()
        )
    lines = []
    for name, job in world["jobs"].items():
        if job["state"] in ("PENDING", "RUNNING"):
            used = world["now"] - job["began"] if job["state"] == "RUNNING" else 0
            told = {
                "job": name,
                "used": f"{int(used) // 60}:{int(used) % 60:02}",
                "submit": 1000,
                "start": job["began"],
                "node": "vm",
            } | job
            told |= {"per_node": f"gres:gpu:{job['kind']}:{job['gpus']}", "per_job": "N/A"}
            lines.append(FORMAT.format(**told))
    return "\n".join(lines)


def scontrol(world: dict[str, Any], words: list[str]) -> str:
    if words[0] == "show":
        return f"Configuration data as of {world['now']}\nBOOT_TIME    = {world.get('boot', 0)}\n"
    world["done"].append(" ".join(words))
    name = words[-1] if words[0] != "update" else words[1].removeprefix("JobId=")
    job = world["jobs"].get(name)
    if job is None:
        sys.exit("Invalid job id specified")
    if words[0] == "release":
        job["priority"] = 1
    elif words[0] == "hold":
        job["priority"] = 0
    elif words[0] == "update":
        when = ["StartTime=now" + later for later in ("+2", "")]
        assert words[2:] == when[:1] or (
            words[2:] == when[1:] and not job["restarts"]
        )  # Slurm 22.05 kills it else
        job["now"] = True
    elif job["state"] == "RUNNING" or "Incomplete" not in words:  # requeuehold
        job.update(state="PENDING", priority=0, now=False, restarts=job["restarts"] + 1)
    return ""


def scancel(world: dict[str, Any], words: list[str]) -> str:
    world["done"].append(" ".join(words))
    if words[0] == "--state=PENDING":
        if world["jobs"][words[-1]]["state"] == "PENDING":
            world["jobs"][words[-1]]["state"] = "CANCELLED"
        return ""
    world["jobs"][words[-1]]["signals"] += 1
    return ""


COMMANDS = {"sinfo": sinfo, "squeue": squeue, "scontrol": scontrol, "scancel": scancel}


def job(account: str, gpus: int, kind: str, **more: object) -> dict[str, object]:
    """A held job as ``eunomia cluster submit`` hands it in."""
    given: dict[str, object] = {
        "account": account,
        "gpus": gpus,
        "kind": kind,
        "state": "PENDING",
        "partition": "eunomia",
        "priority": 0,
        "now": True,
        "began": 0,
        "restarts": 0,
        "signals": 0,
        "starts": 0,
    }
    return given | more


def install(folder: Path, world: dict[str, object]) -> None:
    """The scripts, and the file of their world."""
    (folder / "bin").mkdir()
    (folder / "world.json").write_text(json.dumps({"now": 2000, "done": []} | world))
    for name in COMMANDS:
        script = folder / "bin" / name
        script.write_text(
            f'#!/bin/sh\nFAKE_SLURM={folder}/world.json exec {sys.executable} {__file__} {name} "$@"\n'
        )
        script.chmod(0o755)


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2:], Path(os.environ["FAKE_SLURM"])))
