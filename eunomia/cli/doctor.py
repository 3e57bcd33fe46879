"""``eunomia doctor``: is everything here that Eunomia needs, and what to do where it is not."""

from __future__ import annotations

from dataclasses import asdict

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import counted, print_json, say


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(as_json: opt.Json = False) -> None:
    """Look at versions, cores, caches, optional parts and limits; exits with 1 where something is at fault."""
    from eunomia.cli.checkup import findings

    found = findings()
    faults = sum(each.state == "fault" for each in found)
    if as_json:
        print_json({"ok": not faults, "findings": [asdict(each) for each in found]})
    else:
        width = max(len(each.what) for each in found)
        for n, each in enumerate(found):
            if n == 0 or found[n - 1].group != each.group:
                say(each.group)
            say(f"  {each.what.ljust(width)}  {each.value}")
            if each.remedy:
                say(f"  {each.state.rjust(width)}: {each.remedy}")
        say(f"{counted(faults, 'fault')} found" if faults else "nothing is at fault")
    if faults:
        raise typer.Exit(1)
