"""Snippets of documents, run as a reader runs them.

In a document, a fence ```` ```toml title="x.toml" ```` (any language) writes a file of that name;
```` ```python ```` runs in one namespace per document; ```` ```console ```` runs each ``$ ...`` line and compares what
is printed with what is shown. Numbers and spacing may differ from those shown, words may not; a line ``...`` stands
for any lines. In a tutorial ```` ```sh ```` runs too; what it exports and starts in the background lasts.

A line that is ``eunomia`` and plain words, with nothing exported before it, runs in this process: imports would cost
more than most commands do. All others run in a shell.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests import children

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r"eunomia (?!serve )[^\n$`|&;<>*?~\\]+")  # a shell would do no more than split it
NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Snippet:
    """A block of code of a document."""

    language: str
    title: str | None
    body: str
    line: int


class Terminal:
    """A shell in a folder: variables that are exported, and programs in the background, last until it is closed."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder, self.variables, self.groups = folder, tools / "variables", tools / "groups"
        programs = tools / "bin"
        programs.mkdir(parents=True)
        for name, words in (("eunomia", ["-m", "eunomia"]), ("python", [])):
            program = programs / name
            program.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" {" ".join(words)} "$@"\n', encoding="utf-8"
            )
            program.chmod(0o755)
        self.environment = {
            "NO_COLOR": "1",
            "no_proxy": "*",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        self.output = tools / "output"
        self.exports = False

    def run(self, script: str) -> tuple[int, str]:
        """Status and output, errors included. Output goes to a file: what runs on in the background holds no pipe."""
        self.exports = self.exports or "export " in script
        if PLAIN.fullmatch(script) and not self.exports:
            return self._here(shlex.split(script))
        before = f'echo $$ >> "{self.groups}"; if [ -f "{self.variables}" ]; then . "{self.variables}"; fi'
        whole = f'{before}\n{script}\nexport -p > "{self.variables}"'
        with self.output.open("w+", encoding="utf-8") as file:
            done = children.run(
                ["bash", "-e", "-o", "pipefail", "-c", whole], cwd=self.folder, env=self.environment,
                capture_output=False, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        return done.returncode, self.output.read_text(encoding="utf-8")

    def _here(self, words: list[str]) -> tuple[int, str]:
        """The same in this process."""
        from eunomia.cli.main import status

        printed = io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment), mock.patch.object(sys, "argv", words),
            contextlib.chdir(self.folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed),
        ):  # fmt: skip
            code = status()
        return code, printed.getvalue()

    def close(self) -> None:
        """End what still runs in the background."""
        for group in self.groups.read_text().split() if self.groups.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(group), signal.SIGKILL)


def run_document(text: str, terminal: Terminal, name: str, shell: bool = False) -> None:
    """All snippets in order; ``shell``: blocks of sh, too. A module that one wrote stays known to no later test."""
    before = set(sys.modules)
    try:
        _run_snippets(text, terminal, name, shell)
    finally:
        for module in set(sys.modules) - before:
            if (getattr(sys.modules[module], "__file__", None) or "").startswith(str(terminal.folder)):
                del sys.modules[module]


def _run_snippets(text: str, terminal: Terminal, name: str, shell: bool) -> None:
    names: dict[str, Any] = {"__name__": Path(name).stem}
    found = list(snippets(text))
    assert found, f"{name} has no snippets"
    for snippet in found:
        where = f"{name}:{snippet.line}"
        if snippet.title is not None:
            (terminal.folder / snippet.title).write_text(snippet.body, encoding="utf-8")
        elif snippet.language == "console":
            run_console(snippet.body, terminal, where)
        elif snippet.language == "python":
            exec(compile(snippet.body, where, "exec"), names)
        elif snippet.language == "sh" and shell:
            status, printed = terminal.run(snippet.body)
            assert status == 0, f"{where}: status {status}\n{printed}"


def run_console(body: str, terminal: Terminal, where: str) -> None:
    """Each command of a block, with what it prints."""
    for command, shown in commands(body):
        status, printed = terminal.run(command)
        failing = any(line.startswith("eunomia: ") for line in shown)  # a shown complaint is meant to fail
        assert (status != 0) == failing, f"{where}: $ {command}\n{printed}"
        if shown:
            assert matches(shown, printed.splitlines()), f"{where}: $ {command}\nprints\n{printed}"


def snippets(text: str) -> Iterator[Snippet]:
    """Every fenced block."""
    for found in FENCE.finditer(text):
        language, _, rest = found["info"].strip().partition(" ")
        title = re.fullmatch(r'title="([^"]+)"', rest.strip())
        line = text.count("\n", 0, found.start()) + 1
        yield Snippet(language, title[1] if title else None, found["body"], line)


def commands(body: str) -> Iterator[tuple[str, list[str]]]:
    """Each ``$ command`` of a console block with the lines that it prints."""
    command: str | None = None
    shown: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line)
    if command is not None:
        yield command, shown


def plain(line: str) -> str:
    """A line without its numbers and rules."""
    return " ".join(NUMBER.sub("#", re.sub(r"[─━═╌-]{2,}", " ", line)).split())


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the printed lines are those shown; ``...`` alone on a line stands for any number of lines."""
    wanted = [plain(line) for line in shown if plain(line)]
    got = [plain(line) for line in printed if plain(line)]
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == "..." else _line(line) for line in wanted)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in got)) is not None


def _line(line: str) -> str:
    return re.escape(line).replace(r"\.\.\.", r"[^\n]*") + r"\n"
