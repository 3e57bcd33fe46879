"""Every verb with its arguments and options, from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from checks.site.reference.words import cell, code

HEAD = """# Every verb of the command line

Made from the program: `eunomia VERB --help` prints the same. [The guide](../docs/cli.md) says how the verbs belong
together, and what the exit statuses mean.
"""


def command_line() -> str:
    """One section per verb."""
    from eunomia.cli.main import app

    root: Any = typer.main.get_command(app)
    return HEAD + "".join(_section(path, verb) for path, verb in verbs(root, "eunomia"))


def verbs(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each verb that does something, with the words that call it."""
    for name, found in sorted(getattr(command, "commands", {}).items()):
        here = f"{path} {name}"
        if getattr(found, "commands", None):
            yield from verbs(found, here)
        else:
            yield here, found


def _section(path: str, verb: Any) -> str:
    shown = [param for param in verb.params if not getattr(param, "hidden", False) and param.name != "help"]
    positional = " ".join(_name(param) for param in shown if param.param_type_name == "argument")
    rows = "".join(_row(param) for param in shown)
    table = f"\n| argument or option | default | meaning |\n|---|---|---|\n{rows}" if rows else ""
    help_text = " ".join((verb.help or "").split())
    return f"\n## {path}\n\n```console\n$ {path} {positional}\n```\n\n{cell(help_text)}\n{table}"


def _name(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _row(param: Any) -> str:
    option = param.param_type_name == "option"
    names = ", ".join(param.opts + getattr(param, "secondary_opts", [])) if option else _name(param)
    if option and param.metavar and not getattr(param, "is_flag", False):
        names += f" {param.metavar}"
    default = param.default
    plain = isinstance(default, (int, float, str)) and not isinstance(default, bool)
    shown = code(default) if plain and str(default) else ""
    return f"| {code(names)} | {shown} | {cell(getattr(param, 'help', '') or '')} |\n"
