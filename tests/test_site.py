"""The site has every page once, its links lead somewhere, it fetches nothing, and axe-core finds nothing in it."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from checks.site import navigation
from checks.site.layout import lay_out, page, place, spaced
from checks.site.links import anchors, slug, targets
from checks.site.reference.schedulers import BESIDE
from tests import axe, children

ROOT = navigation.ROOT


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    lay_out(folder)
    return folder


def test_every_page_of_docs_and_results_is_in_the_navigation_once() -> None:
    listed = Counter(navigation.pages())
    assert [path for path, times in listed.items() if times > 1] == []
    there = {
        path.relative_to(ROOT).as_posix()
        for name in ("docs/**/*.md", "results/*.md")
        for path in ROOT.glob(name)
    }
    assert there - set(listed) == set(), "add it to nav in mkdocs.yml"
    assert [
        path for path in listed if not path.startswith("reference/") and not (ROOT / path).is_file()
    ] == []


def test_every_link_and_anchor_of_the_site_leads_somewhere(laid_out: Path) -> None:
    named: dict[Path, set[str]] = {}
    for document in sorted(laid_out.rglob("*.md")):
        if document.relative_to(laid_out).parts[0] == "source":
            continue
        for target in targets(document.read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            there = Path(os.path.normpath(document.parent / path)) if path else document
            assert there.is_file(), f"{document.relative_to(laid_out)}: {target} leads nowhere"
            if anchor:
                assert anchor in named.setdefault(there, anchors(there)), (
                    f"{document.name}: no heading {target}"
                )


def test_all_pages_of_the_navigation_are_laid_out(laid_out: Path) -> None:
    assert [path for path in navigation.pages() if not (laid_out / path).is_file()] == []


def test_the_reference_names_what_there_is(laid_out: Path) -> None:
    import eunomia
    from eunomia.cluster.policies.catalogue import ALLOCATORS
    from eunomia.inference.policies import POLICIES

    read = {path.stem: path.read_text(encoding="utf-8") for path in (laid_out / "reference").glob("*.md")}
    for name in (*POLICIES.names(), *ALLOCATORS.names()):
        assert f"\n### {name}\n" in read["schedulers"]
    for name in eunomia.__all__:
        assert f"\n## {name}\n" in read["python"]
    for verb in ("eunomia run", "eunomia cluster whatif", "eunomia new policy", "eunomia doctor"):
        assert f"\n## {verb}\n" in read["command-line"]
    for key in ("dram_bandwidth_gb_s", "min_deadline_ms", "per_server", "headroom"):
        assert f"| `{key}` |" in read["settings"]


def test_measured_rows_stand_beside_their_schedulers(laid_out: Path) -> None:
    text = (laid_out / "reference" / "schedulers.md").read_text(encoding="utf-8")
    prema = text.partition("\n### prema\n")[2].partition("\n### ")[0]
    assert re.search(r"\*Measured\*: `prema`: \d+\.\d ± \d\.\d %.*`prema\+tuned`", prema)
    themis = text.partition("\n### themis\n")[2].partition("\n### ")[0]
    assert re.search(r"worst rho \d\.\d\d ± ", themis)


def test_each_scheduler_says_where_it_does_badly_and_has_its_measured_row(laid_out: Path) -> None:
    """A newcomer says it in its docstring ("Does badly ..."), or in checks/site/reference/schedulers.toml."""
    text = (laid_out / "reference" / "schedulers.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}
    assert len(sections) >= 115
    assert [
        name for name, part in sections.items() if "does badly" not in part.lower().replace("*", "")
    ] == []
    assert [name for name, part in sections.items() if "*Does badly*: not said" in part] == []
    unmeasured = [
        name for name, part in sections.items() if re.search(r"^\*Measured\*: -$", part, re.MULTILINE)
    ]
    assert unmeasured == []
    assert "partial(" not in text, "settings given to a class are named, with the docstring of the class"
    named = {name for entry in BESIDE["weak"] for name in entry["names"]} | {
        e["name"] for e in BESIDE["study"]
    }
    assert named <= set(sections), "no sentence about a scheduler that is gone"


def test_links_to_sources_become_pages_and_lists_get_their_blank_line(tmp_path: Path) -> None:
    readme = ROOT / "docs" / "policies.md"
    known = {readme.resolve()}
    assert "](../source/eunomia/contract/traits.py.md)" in page(readme, known)
    assert place(ROOT / "eunomia" / "__init__.py", known).as_posix() == "source/eunomia/__init__.py.md"
    assert spaced("It:\n* a\n  b\n* c\nd\n\n# H\n* e") == "It:\n\n* a\n  b\n* c\nd\n\n# H\n* e"
    assert slug("Rules, gates & more: `x`") == "rules-gates--more-x"


@pytest.fixture(scope="module")
def built(laid_out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    tmp_path = tmp_path_factory.mktemp("built")
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    shutil.copytree(laid_out, tmp_path / "pages")
    for result in (tmp_path / "pages" / "results").glob(
        "*.md"
    ):  # tables of figures hold no links: three rows will do
        text = result.read_text(encoding="utf-8")
        result.write_text(
            re.sub(r"((?:^\|.*\n){5})(?:^\|.*\n)+", r"\1", text, flags=re.MULTILINE), encoding="utf-8"
        )
    settings = tmp_path / "mkdocs.yml"
    text = navigation.SETTINGS.read_text(encoding="utf-8")
    text = re.sub(r"^docs_dir: .*$", f"docs_dir: {tmp_path / 'pages'}", text, flags=re.MULTILINE)
    settings.write_text(re.sub(r"^site_dir: .*$", f"site_dir: {tmp_path / 'html'}", text, flags=re.MULTILINE))
    build = children.python("-m", "mkdocs", "build", "--strict", "--quiet", "-f", settings)
    done = children.run(build, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path / "html"


def test_the_site_asks_no_other_host(built: Path) -> None:
    fetched = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//", re.IGNORECASE)
    for name in ("index.html", "docs/engine.html", "reference/schedulers.html"):
        assert not fetched.search((built / name).read_text(encoding="utf-8")), name


def test_axe_finds_nothing(built: Path, tmp_path: Path) -> None:
    axe.source()
    with axe.chromium(tmp_path) as browser:
        forget = {"source": "localStorage.clear()"}  # or the theme keeps the colours of the first view
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", forget)
        for name in ("index.html", "docs/tutorials/planner.html", "docs/tutorials/gallery.html"):
            assert axe.violations(browser, (built / name).as_uri()) == [], name
            scheme = browser.execute_script("return document.body.dataset.mdColorScheme")
            assert scheme == "slate", f"{name}: the last view is not dark"
