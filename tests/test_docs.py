"""The documents say what is: their snippets run, in order, and their links lead somewhere.

In a document, a fence ```` ```toml title="x.toml" ```` (any language) writes a file of that name;
```` ```python ```` runs in one namespace per document; ```` ```console ```` runs each ``$ eunomia ...``
line and compares what is printed with what is shown. Numbers and spacing may differ from those
shown, words may not; a line ``...`` stands for any lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import children

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"), *(CHECKOUT / "results").glob("*.md")]
)
RUN = [
    CHECKOUT / "docs" / name
    for name in ("tutorial.md", "api.md", "models.md", "cost-model.md", "cluster-peers.md")
]

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Snippet:
    language: str
    title: str | None
    body: str
    line: int


def snippets(text: str) -> Iterator[Snippet]:
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
    return " ".join(NUMBER.sub("#", re.sub(r"[─━═╌-]{2,}", " ", line)).split())


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the printed lines are those shown; ``...`` alone on a line stands for any number of lines."""
    wanted = [plain(line) for line in shown if plain(line)]
    got = [plain(line) for line in printed if plain(line)]
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == "..." else _line(line) for line in wanted)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in got)) is not None


def _line(line: str) -> str:
    return re.escape(line).replace(r"\.\.\.", r"[^\n]*") + r"\n"


def run_console(body: str, folder: Path, where: str) -> None:
    for command, shown in commands(body):
        program, *arguments = shlex.split(command, comments=True)
        assert program == "eunomia", f"{where}: only eunomia is run here, not {program}"
        done = children.run(children.eunomia(*arguments), cwd=folder, env={"NO_COLOR": "1"})
        printed = (done.stdout + done.stderr).splitlines()
        failing = any(line.startswith("eunomia: ") for line in shown)  # a shown complaint is meant to fail
        assert (done.returncode != 0) == failing, f"{where}: $ {command}\n" + "\n".join(printed)
        if shown:
            assert matches(shown, printed), f"{where}: $ {command}\nprints\n" + "\n".join(printed)


def run_snippet(snippet: Snippet, folder: Path, names: dict[str, Any], where: str) -> None:
    if snippet.title is not None:
        (folder / snippet.title).write_text(snippet.body, encoding="utf-8")
    elif snippet.language == "console":
        run_console(snippet.body, folder, where)
    elif snippet.language == "python":
        exec(compile(snippet.body, where, "exec"), names)


@pytest.mark.parametrize("document", RUN, ids=lambda path: path.name)
def test_snippets_run_and_print_what_is_shown(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    names: dict[str, Any] = {"__name__": document.stem}
    found = list(snippets(document.read_text(encoding="utf-8")))
    assert found, f"{document.name} has no snippets"
    for snippet in found:
        run_snippet(snippet, tmp_path, names, f"{document.name}:{snippet.line}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    for found in LINK.finditer(text):
        target, _, anchor = found["target"].partition("#")
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), f"{document.name}: {found[0]} leads nowhere"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{document.name}: {path.name} has no heading #{anchor}"


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    fences = [snippet.body for snippet in snippets((CHECKOUT / "README.md").read_text(encoding="utf-8"))]
    (command,) = re.findall(r"^(make test)\b", "\n".join(fences), re.MULTILINE)
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    run = [line for line in script if line and not line.startswith(("#", "set ", "cd "))]
    assert run == [f"exec {command}"]


def test_the_readme_quotes_the_errors_of_the_cost_model() -> None:
    """The mean absolute errors stand in bold in the tables that the benchmark writes."""
    page = (CHECKOUT / "results" / "cost-model.md").read_text(encoding="utf-8")
    means = [re.findall(r"\*\*([\d.]+)%\*\*", line) for line in page.splitlines() if "mean abs." in line]
    (alexnet_latency, alexnet_dram), (vgg_latency,) = means
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    for figure in (alexnet_latency, alexnet_dram, vgg_latency):
        assert f"{figure} %" in readme, f"the README does not quote {figure} %"


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_comparison_sees_a_changed_word_and_forgives_a_changed_number() -> None:
    shown = ["policy  hit rate", "edf     91.2 %", "...", "report  -> runs/...html"]
    assert matches(shown, ["policy hit rate", "edf 88 %", "fcfs 60 %", "report -> runs/a/report.html"])
    assert not matches(shown, ["policy hit rate", "llf 88 %", "report -> runs/a/report.html"])
    assert not matches(shown, ["policy hit rate", "edf 88 %"])
