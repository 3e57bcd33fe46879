"""``eunomia cluster daemon | submit | status | cancel``: jobs of a Slurm partition under an allocator."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.cluster_advise import numbers
from eunomia.cli.console import counted, print_json, say
from eunomia.core.errors import ConfigError

State = Annotated[
    Path, typer.Option(metavar="DIR", help="Memory of the daemon; on a file system that all nodes share.")
]
Partition = Annotated[str, typer.Option(metavar="NAME", help="The partition that the daemon governs.")]
DEFAULT_STATE, DEFAULT_PARTITION = Path("out/slurm"), "eunomia"


@dataclass(frozen=True)
class DaemonOptions:
    """Options of the daemon."""

    actuator: Annotated[str, typer.Option(metavar="NAME", help="Who starts and stops: slurm.")] = "slurm"
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="NAME", help="Allocator, as for simulate.")
    ] = "max_min_fairness_perf"
    state: State = DEFAULT_STATE
    partition: Partition = DEFAULT_PARTITION
    round_s: Annotated[float, typer.Option(help="Length of a lease.")] = 360.0
    look_s: Annotated[float, typer.Option(help="Between two looks at the queue.")] = 5.0
    grace_s: Annotated[float, typer.Option(help="From the checkpoint signal to the requeue.")] = 30.0
    speed: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=FACTOR", help="Relative speed of a GPU; default 1. Repeatable."),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="ACCOUNT=WEIGHT", help="Instead of sshare's; default 1. Repeatable."),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands of one look; run none.")] = (
        False
    )
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Fail where Slurm does not answer the first look; later waits go on."),
    ] = False


@bundled
def daemon(options: DaemonOptions) -> None:
    """Start and stop the jobs of a Slurm partition as an allocator decides. Runs until it is stopped."""
    from eunomia.engines.slurm.acts import as_text
    from eunomia.study.cluster.advising import account_shares
    from eunomia.study.cluster.slurm_daemon import Daemon, Orders

    if options.actuator != "slurm":
        raise ConfigError(f"--actuator {options.actuator}: there is only slurm")
    weights = account_shares(None, live=True) | numbers("--weight", options.weight or [], "gold=2")
    daemon = Daemon(
        Orders(
            options.state.resolve(),
            options.partition,
            options.policy,
            options.round_s,
            options.look_s,
            options.grace_s,
            numbers("--speed", options.speed or [], "a100=2.5"),
            weights,
        )
    )
    if options.dry_run:
        say(as_text(daemon.planned()).rstrip("\n"))
        return
    daemon.run(say, wait=not options.no_wait)


@dataclass(frozen=True)
class SubmitOptions:
    """Options of a job."""

    gpus: Annotated[str, typer.Option(metavar="TYPE:COUNT", help="GPUs of each node.")]
    account: Annotated[str, typer.Option("--account", "-A", metavar="NAME", help="Who pays: the tenant.")] = (
        ""
    )
    time: Annotated[str, typer.Option("--time", "-t", metavar="TIME", help="Limit of one lease.")] = ""
    name: Annotated[str, typer.Option(metavar="TEXT", help="Default: the command.")] = ""
    any_type: Annotated[
        bool, typer.Option("--any-type", help="The daemon chooses the type: one job of Slurm for each.")
    ] = False
    state: State = DEFAULT_STATE
    partition: Partition = DEFAULT_PARTITION
    sbatch: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION", help="Passed to sbatch: --sbatch=--nodes=2. Repeatable."),
    ] = None


@bundled
def submit(
    options: SubmitOptions,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="What to run, after --.")],
) -> None:
    """Hand in a job that leases GPUs. USR1 asks it to save; status 75 gives the GPUs back until its next lease."""
    from eunomia.engines.slurm.submission import Submission
    from eunomia.study.cluster import slurm_ask
    from eunomia.study.cluster.slurm_daemon import JOBS

    submission = Submission(
        command,
        options.gpus,
        options.state.resolve() / JOBS,
        uuid.uuid4().hex,
        options.account,
        options.partition,
        options.time,
        options.name,
        options.any_type,
        options.sbatch or (),
    )
    say(slurm_ask.submit(submission))


@bundled
def status(state: State = DEFAULT_STATE, as_json: opt.Json = False) -> None:
    """What accounts were promised and had, and how the daemon's jobs stand."""
    from eunomia.study.cluster import slurm_ask

    found = slurm_ask.status(state)
    if as_json:
        print_json(found)
        return
    say(f"{counted(int(str(found['rounds'])), 'round')}, {counted(len(found['jobs']), 'job')}")  # type: ignore[arg-type]
    for name, had in found["accounts"].items():  # type: ignore[attr-defined]
        say(f"account {name}: {had['received_s']:.0f} device-seconds of {had['promised_s']:.0f} promised")
    for job in found["jobs"]:  # type: ignore[attr-defined]
        saving = ", saves its state" if job["saving"] else ""
        say(f"{job['job']}: {'on ' + job['on'] if job['on'] else 'waits'}{saving}: {job['why']}")
    for gone in found["lost"]:  # type: ignore[attr-defined]
        say(f"{gone['job']}: lost: {gone['why']}; hand it in again: {gone['again']}")


@bundled
def cancel(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Numbers of jobs.")],
    partition: Partition = DEFAULT_PARTITION,
    state: State = DEFAULT_STATE,
) -> None:
    """Cancel jobs of the daemon's partition."""
    from eunomia.study.cluster import slurm_ask

    wrong = [job for job in jobs if not job.isdigit()]
    if wrong:
        raise ConfigError(f"'{wrong[0]}' is no number of a job; eunomia cluster status lists them")
    slurm_ask.cancel(jobs, partition, state.resolve())
