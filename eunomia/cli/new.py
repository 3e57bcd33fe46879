"""``eunomia new policy``: a small package that adds a policy, with its entry point and its contract test.

``eunomia new scenario`` stands in :mod:`.new_scenario`, ``eunomia new dataflow`` in :mod:`.new_dataflow`.
"""

from __future__ import annotations

from pathlib import Path

import typer

from eunomia.cli.console import say
from eunomia.cli.new_dataflow import dataflow
from eunomia.cli.new_package import Into, Name, check_name, write_package
from eunomia.cli.new_scenario import scenario

app = typer.Typer(help="Begin a policy, a scenario or a dataflow of your own.", no_args_is_help=True)
app.command("scenario")(scenario)
app.command("dataflow")(dataflow)

MODULE = '''"""A policy for Eunomia: the least time to spare first."""

from __future__ import annotations

import numpy as np
from eunomia import Assign, View


def NAME(view: View, hopeless_last: bool = True) -> list[Assign]:
    """Start the waiting layer with the least time to spare on the idle accelerator that runs it fastest.

    Spare is what is left until the deadline, less the fastest way through the rest of the network.
    ``hopeless_last``: requests that cannot meet their deadline any more come after all others.
    """
    spare_s = view.ready["deadline_s"] - view.now_s - view.ready["path_best_s"]
    late = (spare_s < 0.0) & hopeless_last
    for row in np.lexsort((spare_s, late)):
        able = view.idle[np.isfinite(view.latency_s[row, view.idle])]
        if len(able):
            fastest = able[np.argmin(view.latency_s[row, able])]
            return [view.assign(int(row), int(fastest))]
    return []  # nothing that waits can run on what is idle: hold
'''


@app.command("policy")
def policy(
    name: Name,
    into: Into = None,
) -> None:
    """Write a package with a policy that runs, its entry point and its contract test."""
    target = into or Path(name)
    check_name(name, "policy", _is_policy, "my_edf")
    words = {
        "KIND": "policy",
        "ENTRY_GROUP": "eunomia.policies",
        "CHECK_MODULE": "eunomia.study.inference.conformance",
        "CHECK": "check_policy",
        "WHAT_IT_KEEPS": "it_answers_legally_never_stalls_and_repeats_itself",
    }
    write_package(name, target, MODULE, words)
    say(f"policy  -> {target / name / '__init__.py'}")
    say(f"test    -> {target / 'tests' / 'test_contract.py'}: cd {target} && python -m pytest")
    say(f"try     -> eunomia demo -p edf -p {target / name / '__init__.py'}:{name}")
    say(f"install -> pip install -e {target}; then {name} is a name like edf")


def _is_policy(name: str) -> bool:
    from eunomia.core.errors import UnknownNameError
    from eunomia.inference.policies import load_policy

    try:
        load_policy(name)
    except UnknownNameError:
        return False
    return True
