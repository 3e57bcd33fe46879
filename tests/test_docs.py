"""The documents say what is: their snippets run, in order (:mod:`tests.snippets`), and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.page import stored
from checks.site.links import anchors, targets
from tests.snippets import Terminal, matches, run_document, snippets

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"), *(CHECKOUT / "results").glob("*.md")]
)
RUN = [
    CHECKOUT / "docs" / name
    for name in ("api.md", "models.md", "cost-model.md", "plan.md", "cluster-peers.md")
]


@pytest.mark.parametrize("document", RUN, ids=lambda path: path.name)
def test_snippets_run_and_print_what_is_shown(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    (folder / "examples").symlink_to(CHECKOUT / "examples")
    terminal = Terminal(folder, tmp_path / "tools")
    run_document(document.read_text(encoding="utf-8"), terminal, document.name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in targets(document.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), f"{document.name}: {link} leads nowhere"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{document.name}: {path.name} has no heading #{anchor}"


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    fences = [snippet.body for snippet in snippets((CHECKOUT / "README.md").read_text(encoding="utf-8"))]
    (command,) = re.findall(r"^(make test)\b", "\n".join(fences), re.MULTILINE)
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    run = [line for line in script if line and not line.startswith(("#", "set ", "cd "))]
    assert run == [f"exec {command}"]


def test_the_readme_quotes_the_errors_of_the_cost_model() -> None:
    """The last rows of the tables that the benchmark stored hold the mean absolute errors."""
    tables = stored("cost-model")
    alexnet, vgg16, energy = (tables[key].rows for key in ("alexnet", "vgg16", "energy"))
    power = next(row[3] for row in energy if str(row[0]).startswith("**VGG-16"))
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    for error in (alexnet[-1][3], alexnet[-1][11], vgg16[-1][3], power):
        assert f"{error:.1%}".replace("%", " %") in readme, f"the README does not quote {error:.1%}"


def test_the_comparison_sees_a_changed_word_and_forgives_a_changed_number() -> None:
    shown = ["policy  hit rate", "edf     91.2 %", "...", "report  -> runs/...html"]
    assert matches(shown, ["policy hit rate", "edf 88 %", "fcfs 60 %", "report -> runs/a/report.html"])
    assert not matches(shown, ["policy hit rate", "llf 88 %", "report -> runs/a/report.html"])
    assert not matches(shown, ["policy hit rate", "edf 88 %"])
