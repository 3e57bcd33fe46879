"""Every published picture, made anew: ``python -m benchmarks pictures``.

``docs/images/report.png`` is the page that ``eunomia demo`` writes, as Chromium shows it without a window; the fronts
of the tenants' page are drawn from its stored tables. The memory of the soak (docs/images/serving-soak.svg) is drawn
by ``python -m benchmarks serving-soak``, which alone has its samples.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.page import RESULTS, ROOT, stored
from benchmarks.table import Table
from eunomia.core.atomic import write_text
from eunomia.report.study.front import Axis, Point, front_chart
from tests.snippets import snippets

HAND, STRENGTHS = {"attainment": "keep", "shortfall": "mend", "max_min": "level"}, (0.5, 1.0, 2.0, 4.0)
WIDTH, HEIGHT = 1280, 1610  # down to the SLOs
HITS = 3  # column of the measures below
PANELS = (
    Axis(0, "SLO attainment, %"),
    Axis(1, "mean shortfall, points", False),
    Axis(2, "worst shortfall, points", False),
)
HEADLESS = (
    "headless no-sandbox disable-gpu hide-scrollbars no-first-run disable-component-update disable-sync"
)
HEADLESS += " disable-background-networking"


def draw() -> None:
    """All of them."""
    tables = stored("learned-tenants")
    write_text(RESULTS / "learned_tenants.svg", tenants(tables["means"]))
    report(ROOT / "docs" / "images" / "report.png")
    gallery(ROOT / "docs" / "images")


def gallery(folder: Path) -> None:
    """The pictures of docs/tutorials/gallery.md, by the lines that it shows."""
    text, names = (
        (ROOT / "docs" / "tutorials" / "gallery.md").read_text(encoding="utf-8"),
        dict[str, object](),
    )
    with contextlib.chdir(folder):
        for snippet in snippets(text):
            exec(snippet.body, names)


def measures(table: Table) -> dict[str, list[float]]:
    """Attainment, shortfalls and hits by policy."""
    return {str(row[0]): [float(str(cell)) for cell in row[1:5]] for row in table.rows}


def tenants(table: Table) -> str:
    """Hits against promises, the families of policies as lines."""
    points = []
    for promise, terms in HAND.items():
        for x in STRENGTHS:
            label = None if x in (STRENGTHS[0], STRENGTHS[-1]) else ""
            points.append(Point(f"{terms} {x:g}", "terms set by hand", terms, label))
        points.append(Point(f"trained for {promise}", "trained", label=promise))
        points.append(Point(f"best rule for {promise}", "tenant rules", label=promise))
    rest = {"eunomia": None, "best rule without promises": "attainment", "best rule for hits": "hits"}
    points += [Point(name, "no promises", label=label) for name, label in rest.items()]
    return front_chart(points, measures(table), Axis(HITS, "hit rate, %"), PANELS)


def report(picture: Path) -> None:
    """What ``eunomia demo`` writes, as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("the picture of the report needs Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "eunomia", "demo", "--out", str(folder / "demo")]
        subprocess.run(command, check=True, cwd=folder)
        (page,) = (folder / "demo").rglob("report.html")
        flags = [*HEADLESS.split(), f"user-data-dir={folder / 'profile'}", f"window-size={WIDTH},{HEIGHT}"]
        flags.append(f"screenshot={folder / 'page.png'}")
        subprocess.run([browser, *(f"--{flag}" for flag in flags), page.as_uri()], check=True, cwd=folder)
        shutil.copy(folder / "page.png", picture)
