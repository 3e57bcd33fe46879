"""Each door's task is done by its page alone: every block runs, in order, from an empty folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.serving.postgres import postgres
from tests.snippets import Terminal, run_document, snippets

CHECKOUT = Path(__file__).resolve().parent.parent
TUTORIALS = sorted(path for path in (CHECKOUT / "docs" / "tutorials").glob("*.md") if path.stem != "README")
NEEDS = {"platform-engineer": ("curl", "openssl"), "policy": ("curl",)}  # programs beside Eunomia


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    (folder / "examples").symlink_to(CHECKOUT / "examples")
    with closing(Terminal(folder, tmp_path / "tools")) as opened:
        yield opened


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_every_block_runs_and_prints_what_is_shown(tutorial: Path, terminal: Terminal) -> None:
    missing = [program for program in NEEDS.get(tutorial.stem, ()) if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{tutorial.stem} needs {', '.join(missing)}")
    text = tutorial.read_text(encoding="utf-8")
    with database() if "postgresql://" in text else nullcontext() as url:
        run_document(on_this_machine(text, url), terminal, tutorial.name, shell=True)


def test_the_server_of_the_readme_is_the_one_that_runs_here() -> None:
    """Its file, and the request to it."""
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    page = (CHECKOUT / "docs" / "tutorials" / "policy.md").read_text(encoding="utf-8")
    (file,) = [snippet.body for snippet in snippets(page) if snippet.title == "box.toml"]
    (request,) = re.findall(r"^curl [^\n]*/infer \\\n[^\n]*$", page, re.MULTILINE)
    assert f"<<'END'\n{file}END\neunomia serve box.toml " in readme and request in readme


def test_the_page_of_doors_names_every_tutorial() -> None:
    doors = (CHECKOUT / "docs" / "tutorials" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in TUTORIALS if f"]({path.name})" not in doors] == []


def test_the_gallery_shows_what_its_lines_draw() -> None:
    text = (CHECKOUT / "docs" / "tutorials" / "gallery.md").read_text(encoding="utf-8")
    drawn, shown = re.findall(r'savefig\("([^"]+)"', text), re.findall(r"\(../images/([^)]+)\)", text)
    assert drawn == shown and all((CHECKOUT / "docs" / "images" / name).is_file() for name in drawn)


@contextmanager
def database() -> Iterator[str]:
    """The address of a PostgreSQL of this test's own; skips where there is none."""
    with postgres() as running:
        if running is None:
            pytest.skip("PostgreSQL is not installed")
        yield running.url


def on_this_machine(text: str, url: str | None) -> str:
    """With free ports, and the test's own database."""
    for port in ("8443", "8444", "8000", "8001"):
        if port in text:
            text = text.replace(port, str(free_port()))
    return text.replace("postgresql://eunomia@127.0.0.1:5432/postgres", url) if url else text
