"""What the daemon's folder says: of accounts and jobs now, and of one job from its first start on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from eunomia.cluster.live_book import Book
from eunomia.cluster.operators.slurm_now import SINFO, UNTYPED, types_of
from eunomia.core.atomic import clear_output_errors, write_text
from eunomia.core.data import Data, Json
from eunomia.core.errors import ConfigError
from eunomia.engines.slurm.ask import ask
from eunomia.engines.slurm.submission import Submission
from eunomia.study.cluster.slurm_daemon import ACTS, JOBS, JOURNAL, read_book
from eunomia.study.cluster.slurm_lost import Handed, lost, note_cancelled, note_handed, with_twins


def submit(submission: Submission, slurm: Callable[..., str] = ask) -> str:
    """Write the script, hand it in, held; the job's number. Raises ConfigError, OutputError."""
    with clear_output_errors(submission.folder):
        submission.folder.mkdir(parents=True, exist_ok=True)
    write_text(submission.path, submission.script())
    made: list[tuple[str, Sequence[str]]] = []
    refused = ""
    for kind in _kinds(submission, slurm):
        words = submission.sbatch(kind)
        try:
            made.append((slurm(words).strip().partition(";")[0], words))
        except ConfigError as error:  # no node has so many of this type
            refused = refused or str(error)
            continue
        (job, first), *twins = made  # after each: a command that is ended here leaves none without a record
        note_handed(Handed(submission.path, job, time.time(), first, twins))
    if not made:
        raise ConfigError(refused)
    return made[0][0]


def _kinds(submission: Submission, slurm: Callable[..., str]) -> list[str]:
    """Types of its twins, the one that it names first; [""] for a job that has none."""
    if not submission.any_type:
        return [""]
    kinds = [kind for kind in types_of(slurm(SINFO)) if kind != UNTYPED]
    named = submission.gpus.rpartition(":")[0]
    if named and named not in kinds:
        raise ConfigError(
            f"--gpus {submission.gpus}: no node has that type; there are {', '.join(kinds) or 'none'}"
        )
    return sorted(kinds, key=lambda kind: kind != named) or [""]


def cancel(jobs: Sequence[str], partition: str, folder: Path, slurm: Callable[..., str] = ask) -> None:
    """Cancel jobs of a partition, and write down that it was on purpose. Raises ConfigError, OutputError."""
    slurm(("scancel", f"--partition={partition}", *with_twins(folder / JOBS, jobs)))
    note_cancelled(folder / JOBS, jobs)


def status(folder: Path) -> Json:
    """Accounts and jobs as the daemon's last look had them, and who was handed in and is gone. Raises ConfigError."""
    book = _needed(folder)
    accounts: Json = {
        name: {"promised_s": round(promised, 1), "received_s": round(received, 1)}
        for name, (promised, received) in sorted(book.accounts.items())
    }
    jobs: list[Json] = [
        {
            "job": name,
            "on": book.target.get(name, ""),
            "saving": name in book.warned,
            "had_s": {kind: round(value, 1) for kind, value in known.had_s.items()},
            "owed_s": {kind: round(value, 1) for kind, value in known.credit.items()},
            "steps": known.steps,
            "total": known.total,
            "why": book.why.get(name, ""),
        }
        for name, known in book.jobs.items()
    ]
    acted = {str(act.get(what)) for act in _acts(folder / ACTS) for what in ("job", "number")}
    gone = lost(folder / JOBS, set(book.queued), acted, book.looked_s)
    return {
        "looked_s": book.looked_s,
        "rounds": book.rounds,
        "accounts": accounts,
        "jobs": jobs,
        "lost": gone,
    }


def story(folder: Path, job: str) -> list[Json]:
    """What was done with a job, in order, and last how it stands. Raises ConfigError for one that is not known."""
    book = _needed(folder)
    job = next((name for name, known in book.jobs.items() if job in known.twins), job)
    acts = [act for act in _acts(folder / ACTS) if act.get("job") == job]
    if not acts and job not in book.jobs:
        raise ConfigError(
            f"job {job} is unknown to the daemon of {folder}; it knows {', '.join(book.jobs) or 'none'}"
        )
    if job in book.jobs:
        stands = f"shall run on {book.target[job]}" if job in book.target else "waits"
        acts.append({"time_s": book.looked_s, "does": stands, "job": job, "why": book.why.get(job, "")})
    else:
        acts.append({"time_s": book.looked_s, "does": "has left the queue", "job": job, "why": ""})
    return acts


def line(act: Json) -> str:
    """An act as one line, in the time zone of this machine."""
    when = datetime.fromtimestamp(float(str(act["time_s"]))).isoformat(" ", "seconds")
    on, why, failed = (act.get(key) for key in ("on", "why", "failed"))
    more = [f" on {on}"] if on and act["does"] == "start" else []
    more += [f": {why}"] if why else []
    more += [f" (failed: {failed})"] if failed else []
    return f"{when}  {act['does']}{''.join(more)}"


def is_daemons(folder: Path) -> bool:
    """Whether a daemon keeps its memory there."""
    return (folder / JOURNAL).is_file()


def _needed(folder: Path) -> Book:
    if not is_daemons(folder):
        raise ConfigError(f"no daemon has worked with {folder}; give the --state of eunomia cluster daemon")
    return read_book(folder)


def _acts(path: Path) -> list[Data]:
    """All acts; a line that a killed daemon has left half written is passed over."""
    found: list[Data] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
