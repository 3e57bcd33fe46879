"""Jobs of the daemon: the script around a command, the lease in a training loop, the verbs, and a real Slurm."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.core.errors import ConfigError
from eunomia.engines.slurm.submission import AGAIN, GIVES_BACK, Submission
from tests import children
from tests.cluster import fake_slurm
from tests.cluster.private_slurm import private_slurm
from tests.patience import PATIENCE_S, until

STEPS = """
import sys, time
from pathlib import Path
from eunomia.engines.slurm.lease import Lease
saved, log, total = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
lease = Lease(total)
done = int(saved.read_text()) if saved.exists() else 0
while done < total:
    sum(range(4_000_000))
    done += 1
    with log.open("a") as file: file.write(f"{done}\\n")
    saved.write_text(str(done))
    if lease.step(done):
        lease.give_back()
"""


def submission(folder: Path, *command: object, **more: object) -> Submission:
    given = {"gpus": "a100:2", "folder": folder, "token": "abc"} | more
    made = Submission(tuple(map(str, command)), **given)  # type: ignore[arg-type]
    folder.mkdir(exist_ok=True)
    made.path.write_text(made.script())
    return made


def test_what_is_handed_in_is_text_before_it_is_done() -> None:
    made = Submission(
        ("python", "train.py"), "a100:2", Path("/s/jobs"), "abc", "gold", "gpus", "30:00", "big", True
    )
    assert " ".join(made.sbatch("t4")) == (
        "sbatch --parsable --hold --requeue --open-mode=append --partition=gpus --gres=gpu:t4:2 "
        "--comment=eunomia:any:abc --account=gold --time=30:00 --job-name=big /s/jobs/abc.sh"
    )
    for gpus in ("a100", "a100:0", "a100:2,t4:1", "a:b:1", "²"):
        with pytest.raises(ConfigError, match="write TYPE:COUNT"):
            Submission(("x",), gpus, Path("/s"), "abc")
    with pytest.raises(ConfigError, match="no command; write it after --"):
        Submission((), "1", Path("/s"), "abc")


@pytest.mark.parametrize(("code", "again"), [(0, 0), (3, 3)])
def test_a_command_that_has_ended_is_not_run_again(tmp_path: Path, code: int, again: int) -> None:
    made = submission(tmp_path / "it's", "sh", "-c", f"echo ran >> '{tmp_path}/log'; exit {code}")
    ended = [children.run(["sh", made.path], env={"SLURM_JOB_ID": "7"}).returncode for _ in range(2)]
    assert ended == [code, again] and (tmp_path / "log").read_text() == "ran\n"


def test_the_signal_reaches_the_command_which_gives_back(tmp_path: Path) -> None:
    """The loop saves and ends with 75; the script asks Slurm for a requeue, and the next lease goes on."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (tools / "sleep").write_text("#!/bin/sh\nexit 143\n")  # as a requeue ends it
    for tool in tools.iterdir():
        tool.chmod(0o755)
    (tmp_path / "train.py").write_text(STEPS)
    saved, log = tmp_path / "saved", tmp_path / "log"
    made = submission(tmp_path / "jobs", sys.executable, tmp_path / "train.py", saved, log, 12)
    env = {"SLURM_JOB_ID": "7", "PATH": f"{tools}:{os.environ['PATH']}"}
    with children.started(["sh", made.path], env=env) as process:
        until(lambda: log.exists() and log.read_text().count("\n") >= 2, process)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE_S) == GIVES_BACK
    assert (tmp_path / "asked").read_text() == "requeuehold Incomplete 7\n"
    assert not (tmp_path / "jobs" / "abc.done").exists() and int(saved.read_text()) < 12
    assert children.run(["sh", made.path], env=env).returncode == 0
    assert [int(line) for line in log.read_text().split()] == list(range(1, 13))
    told = json.loads((tmp_path / "jobs" / "7.steps").read_text())
    assert told["steps"] == told["total"] == 12 and told["rate"] > 0.0


def test_a_command_that_each_signal_ends_has_ended_at_last(tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_text("#!/bin/sh\nkill -TERM $PPID\n")
    (tmp_path / "scontrol").chmod(0o755)
    made = submission(
        tmp_path / "jobs", "sh", "-c", "trap 'exit 138' USR1; touch up; while :; do sleep 0.05; done"
    )
    env, codes = {"SLURM_JOB_ID": "7", "PATH": f"{tmp_path}:{os.environ['PATH']}"}, []
    for _ in range(AGAIN + 1):
        (tmp_path / "up").unlink(missing_ok=True)
        with children.started(["sh", made.path], cwd=tmp_path, env=env) as process:
            until((tmp_path / "up").exists, process)
            process.send_signal(signal.SIGUSR1)
            codes.append(process.wait(PATIENCE_S))
    assert codes == [GIVES_BACK] * AGAIN + [138] and (tmp_path / "jobs" / "abc.done").read_text() == "138\n"


def test_a_command_that_the_signal_has_ended_runs_again(tmp_path: Path) -> None:
    """Seen live: Python had done all steps and taken its handler away; its job counted as failed, with 138."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\nkill -TERM $PPID\n")
    (tools / "scontrol").chmod(0o755)
    ends = "trap 'trap - USR1; touch no; kill -USR1 $$' USR1; touch up; while :; do sleep 0.05; done"
    made = submission(tmp_path / "jobs", "sh", "-c", f"[ -f no ] && exit 0; {ends}")
    env = {"SLURM_JOB_ID": "7", "PATH": f"{tools}:{os.environ['PATH']}"}
    with children.started(["sh", made.path], cwd=tmp_path, env=env) as process:
        until((tmp_path / "up").exists, process)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE_S) == GIVES_BACK
    assert (tmp_path / "asked").read_text() == "asked\n" and not (tmp_path / "jobs" / "abc.done").exists()
    assert children.run(["sh", made.path], cwd=tmp_path, env=env).returncode == 0
    made = submission(tmp_path / "jobs", "sh", "-c", "kill -USR1 $$")  # its own doing
    assert children.run(["sh", made.path], env=env).returncode == 0  # this token has ended
    (tmp_path / "jobs" / "abc.done").unlink()
    assert children.run(["sh", made.path], env=env).returncode == 138


def test_a_signal_ends_no_command_that_does_not_listen(tmp_path: Path) -> None:
    """A training loop imports for seconds before it listens; as it was, USR1 ended it, with 138 as its result."""
    made = submission(
        tmp_path / "jobs",
        "sh",
        "-c",
        f"touch {tmp_path}/up; until [ -f {tmp_path}/go ]; do sleep 0.05; done; exit 4",
    )
    with children.started(["sh", made.path], env={"SLURM_JOB_ID": "7"}) as process:
        until((tmp_path / "up").exists, process)
        for _ in range(3):
            process.send_signal(signal.SIGUSR1)
        (tmp_path / "go").touch()
        assert process.wait(PATIENCE_S) == 4
    assert (tmp_path / "jobs" / "abc.done").read_text() == "4\n"


LISTENS = {
    "bash": "trap 'echo heard >> log; exit 9' USR1; touch up; for n in {1..300}; do sleep 0.05; done; exit 3",
    "sh": "trap 'echo heard >> log; exit 9' USR1; touch up; n=0; until [ $n = 300 ]; do sleep 0.05; n=$((n+1)); "
    "done; exit 3",
}
LATE = """
import os, signal, sys
from pathlib import Path
def hear(*_):
    with open("log", "a") as file: file.write("heard\\n")
os.mkfifo("go"), os.mkfifo("end")
Path("up").touch()
open("go").read()  # until somebody has opened and closed it
signal.signal(signal.SIGUSR1, hear)
open("end").read()
sys.exit(9)
"""


@pytest.mark.parametrize("shell", LISTENS)
def test_a_script_of_a_shell_hears_the_signal(tmp_path: Path, shell: str) -> None:
    """A shell can trap no signal that was ignored when it began."""
    made = submission(tmp_path / "jobs", shell, "-c", LISTENS[shell])
    with children.started(["sh", made.path], cwd=tmp_path, env={"SLURM_JOB_ID": "7"}) as process:
        until((tmp_path / "up").exists, process)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE_S) == 9
    assert (tmp_path / "log").read_text() == "heard\n"


def test_a_program_that_listens_late_hears_what_came_before(tmp_path: Path) -> None:
    made = submission(tmp_path / "jobs", sys.executable, "-c", LATE)
    with children.started(["sh", made.path], cwd=tmp_path, env={"SLURM_JOB_ID": "7"}) as process:
        until((tmp_path / "up").exists, process)
        process.send_signal(signal.SIGUSR1)
        (tmp_path / "go").write_text("")
        until((tmp_path / "log").exists, process)
        (tmp_path / "end").write_text("")
        assert process.wait(PATIENCE_S) == 9
    assert (tmp_path / "log").read_text() == "heard\n"


def test_words_before_the_command_set_its_environment(tmp_path: Path) -> None:
    made = submission(tmp_path / "jobs", "CODE=5", "sh", "-c", "exit $CODE")
    assert children.run(["sh", made.path], env={"SLURM_JOB_ID": "7"}).returncode == 5


def test_a_program_that_never_listens_ends_as_ever(tmp_path: Path) -> None:
    made = submission(tmp_path / "jobs", "sh", "-c", "touch up; exec sleep 2.5")
    with children.started(["sh", made.path], cwd=tmp_path, env={"SLURM_JOB_ID": "7"}) as process:
        until((tmp_path / "up").exists, process)
        for _ in range(5):
            process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE_S) == 0
    assert (tmp_path / "jobs" / "abc.done").read_text() == "0\n"


@pytest.mark.parametrize("when", ["during", "after"])
def test_a_requeue_ends_the_script_at_once(tmp_path: Path, when: str) -> None:
    """Slurm kills only after KillWait, half a minute in which the node is completing and starts nobody."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(
        f"#!/bin/sh\ntouch {tmp_path}/asked\n" + "kill -TERM $PPID\n" * (when == "during")
    )
    (tools / "scontrol").chmod(0o755)
    made = submission(tmp_path / "jobs", "sh", "-c", f"exit {GIVES_BACK}")
    env = {"SLURM_JOB_ID": "7", "PATH": f"{tools}:{os.environ['PATH']}"}
    with children.started(["sh", made.path], env=env) as process:
        if when == "after":
            until((tmp_path / "asked").exists, process)
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == GIVES_BACK


def test_a_command_that_is_stopped_has_not_ended(tmp_path: Path) -> None:
    """Many programs end with 0 on TERM; the job is to run again all the same."""
    made = submission(
        tmp_path / "jobs", "sh", "-c", f"trap 'exit 0' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"
    )
    with children.started(["sh", made.path], env={"SLURM_JOB_ID": "7"}) as process:
        until((tmp_path / "up").exists, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
    assert not (tmp_path / "jobs" / "abc.done").exists() and GIVES_BACK != 143


def test_the_verbs_on_a_slurm_of_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_slurm.install(tmp_path, {"jobs": {"1": fake_slurm.job("gold", 2, "a100")}})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    state = str(tmp_path / "state")

    def said(*words: str) -> str:
        done = CliRunner().invoke(app, ["cluster", *words])
        assert done.exit_code == 0, done.output
        return done.output

    dry = said("daemon", "--dry-run", "--state", state, "--policy", "least_attained_service")
    assert "scontrol update JobId=1 StartTime=now\nscontrol release 1\n" in dry
    assert not (tmp_path / "state").exists()
    from eunomia.study.cluster.slurm_daemon import Daemon, Orders

    Daemon(Orders(tmp_path / "state")).run(print, looks=1)
    assert "1 round, 1 job" in said("status", "--state", state) and "1: on a100" in said(
        "status", "--state", state
    )
    assert "start" in said("explain", state, "1") and "shall run on a100" in said("explain", state, "1")
    said("cancel", "1")
    assert json.loads((tmp_path / "world.json").read_text())["done"][-1] == "--partition=eunomia 1"
    for words, sentence in (
        (["cancel", "all"], "'all' is no number of a job"),
        (["daemon", "--actuator", "pbs"], "--actuator pbs: there is only slurm"),
        (["daemon", "--round-s", "0"], "--round-s 0.0: it must be positive"),
        (["daemon", "--weight", "gold=-1"], "--weight gold=-1: write NAME=NUMBER"),
    ):
        done = CliRunner().invoke(app, ["cluster", *words])
        assert sentence in str(done.exception)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(app, ["cluster", "daemon", "--no-wait", "--state", state])
    assert "'scontrol' is not installed here; Debian: apt-get install slurm-client" in str(done.exception)


@pytest.mark.study  # half a minute of leases
def test_a_real_slurm_through_kills_of_daemon_and_controller(tmp_path: Path) -> None:
    """Two jobs for two GPUs, leases of seconds: each ends once, each step is done once."""
    (tmp_path / "train.py").write_text(STEPS)
    state, logs = tmp_path / "state", [tmp_path / f"log{n}" for n in range(2)]
    given = ("--state", state, "--partition", "main")
    daemon = children.eunomia(
        "cluster",
        "daemon",
        *given,
        "--round-s",
        2,
        "--look-s",
        0.5,
        "--grace-s",
        3,
        "--policy",
        "least_attained_service",
    )
    with private_slurm(tmp_path / "slurm") as env:
        for n, log in enumerate(logs):
            words = children.eunomia(
                "cluster",
                "submit",
                *given,
                "--gpus",
                "a100:2",
                "-A",
                f"team{n}",
                "--sbatch=--output=/dev/null",
                "--",
                sys.executable,
                tmp_path / "train.py",
                tmp_path / f"saved{n}",
                log,
                100,
            )
            children.run(words, env=env, check=True, cwd=tmp_path)
        with children.started(daemon, env=env, cwd=tmp_path):
            until(lambda: any(log.exists() for log in logs))
        # a killed controller forgets a start that it has not saved, and then drains the node
        saved = tmp_path / "slurm" / "state" / "job_state"
        until(lambda: saved.exists() and saved.stat().st_mtime > (state / "acts.jsonl").stat().st_mtime + 1.0)
        os.kill(int((tmp_path / "slurm" / "slurmctld.pid").read_text()), signal.SIGKILL)
        with children.started(daemon, env=env, cwd=tmp_path):
            children.run(["slurmctld", "-f", env["SLURM_CONF"]], check=True)
            until(
                lambda: (told := children.run(["squeue", "-h"], env=env)).returncode == 0 and not told.stdout
            )
        for log in logs:
            assert [int(line) for line in log.read_text().split()] == list(range(1, 101))
        ended = list((state / "jobs").glob("*.done"))
        assert [path.read_text().strip() for path in ended] == ["0"] * 2
        acts = [json.loads(line)["does"] for line in (state / "acts.jsonl").read_text().splitlines()]
        assert acts.count("start") >= 2
