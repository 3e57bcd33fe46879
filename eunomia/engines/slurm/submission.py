"""A job that leases GPUs: the batch script around a user's command, and the ``sbatch`` that hands it in, held.

The script runs anew in every lease and writes down once how the command ended. A run after that ends at once with the
same status, so a requeue that crosses the end of a job repeats nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.errors import ConfigError

ANY_TYPE = "eunomia:any"  # mark of twins, before their token
AGAIN = 3  # runs that a signal may end before that counts as the command's end
GIVES_BACK = 75  # exit status of a command that has saved its state and wants to run again

SCRIPT = """\
#!/bin/sh
# Made by eunomia cluster submit. Runs in every lease; writes {done} when the command has ended.
trap '' USR1
[ -f {done} ] && exit "$(cat {done})"
export EUNOMIA_STEPS={folder}/"$SLURM_JOB_ID".steps EUNOMIA_JOB={token}
stopped= timer= told=
listens() {{ # whether the command has a handler of USR1, which would end it else
    case "$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$child/status" 2>/dev/null)" in
    *[2367abef]??) ;;
    *) false ;;
    esac
}}
tell() {{ # pass USR1 on as soon as the command listens
    if listens; then
        kill -USR1 "$child" 2>/dev/null && told=yes
    elif [ -z "$timer" ]; then
        {{ sleep 1; kill -ALRM "$$"; }} >/dev/null 2>&1 &
        timer=$!
    fi
}}
(trap - USR1; exec env {command}) & # a shell can trap no signal that was ignored when it began
child=$!
trap tell USR1
trap 'timer=; tell' ALRM
trap 'stopped=yes; kill -TERM "$child" 2>/dev/null' TERM
while :; do
    wait "$child"
    status=$?
    kill -0 "$child" 2>/dev/null || break # else a signal interrupted the wait
done
trap '' USR1 ALRM
[ -z "$timer" ] || kill "$timer" 2>/dev/null
wait "$child" 2>/dev/null
last=$?
[ "$last" -eq 127 ] || status=$last
[ -z "$stopped" ] || exit 143
# the signal has ended it all the same, as a handler is gone while a program ends: its next run says how it ended
if [ "$status" -eq 138 ] && [ -n "$told" ]; then
    echo >>{signalled}
    [ "$(wc -l <{signalled})" -le {again} ] && status={gives_back} # not for ever
fi
if [ "$status" -eq {gives_back} ]; then # it has saved its state: the GPUs go back at once
    trap 'kill "$pause" 2>/dev/null; exit {gives_back}' TERM # by the requeue, which may come before scontrol returns
    [ -z "$stopped" ] || exit 143
    pause=
    scontrol requeuehold Incomplete "$SLURM_JOB_ID"
    sleep 3600 &
    pause=$!
    wait "$pause"
    exit "$status"
fi
echo "$status" >{part} && mv {part} {done}
exit "$status"
"""


@dataclass(frozen=True)
class Submission:
    """``gpus``: per node, as TYPE:COUNT. ``any_type``: the daemon chooses, among one twin a type. ``token``: unique."""

    command: Sequence[str]
    gpus: str
    folder: Path
    token: str
    account: str = ""
    partition: str = "eunomia"
    time: str = ""
    name: str = ""
    any_type: bool = False
    more: Sequence[str] = ()  # options of sbatch

    def __post_init__(self) -> None:
        kind, _, count = self.gpus.rpartition(":")
        if not (count.isascii() and count.isdigit() and int(count) > 0) or ":" in kind or "," in kind:
            raise ConfigError(f"--gpus {self.gpus}: write TYPE:COUNT or COUNT, for example a100:2")
        if not self.command:
            raise ConfigError("no command; write it after --, for example: -- python train.py")

    @property
    def path(self) -> Path:
        """Where the script is written."""
        return self.folder / f"{self.token}.sh"

    def script(self) -> str:
        """The text of the batch script."""
        done = self.folder / f"{self.token}.done"
        return SCRIPT.format(
            command=shlex.join(self.command),
            done=shlex.quote(str(done)),
            part=shlex.quote(f"{done}.part"),
            folder=shlex.quote(str(self.folder)),
            token=shlex.quote(self.token),
            gives_back=GIVES_BACK,
            signalled=shlex.quote(f"{done}.signalled"),
            again=AGAIN,
        )

    def sbatch(self, kind: str = "") -> tuple[str, ...]:
        """The command that hands it in: held, so that the daemon starts it. ``kind``: this twin's type."""
        gpus = f"{kind}:{self.gpus.rpartition(':')[2]}" if kind else self.gpus
        given = {
            "partition": self.partition,
            "gres": f"gpu:{gpus}",
            "comment": f"{ANY_TYPE}:{self.token}" if kind else "",
            "account": self.account,
            "time": self.time,
            "job-name": self.name or Path(self.command[0]).name,
        }
        options = [f"--{key}={value}" for key, value in given.items() if value]
        fixed = ("--parsable", "--hold", "--requeue", "--open-mode=append")
        return ("sbatch", *fixed, *options, *self.more, str(self.path))
