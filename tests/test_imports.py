"""Who may import whom: the table of docs/structure.md, kept by import-linter and by a walk over the sources."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import children
from tests.import_circles import circles, import_graph, imports_of

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "eunomia"

# library -> the modules (with all below them) that may import it, at the top of a file or inside a function
EDGES: dict[str, tuple[str, ...]] = {
    "torch": ("eunomia.learning", "eunomia.serving"),
    "ray": (
        "eunomia.core.ray_client",
        "eunomia.engines.crew",
        "eunomia.engines.ray_cluster",
        "eunomia.serving.devices.ray",
    ),
    "highspy": ("eunomia.core.highs", "eunomia.cluster", "eunomia.metrics.bounds"),
    "scipy": ("eunomia.cluster",),
    "sklearn": ("eunomia.sharing.interference.trees",),
    "ortools": (),
    "pandas": ("eunomia.study.result",),
    "polars": (),
    "matplotlib": ("eunomia.report.charts",),
    "onnxruntime": ("eunomia.learning", "eunomia.serving"),
    "zigzag": ("eunomia.hardware.zigzag",),
    "onnx": (
        "eunomia.workload.onnx",
        "eunomia.hardware.zigzag",
        "eunomia.study.learning.policy_onnx",
        "eunomia.serving",
        "eunomia.study.sharing.gate",  # makes two networks to measure
    ),
    "aiohttp": ("eunomia.serving",),
    "grpc": ("eunomia.core.ray_address", "eunomia.serving"),
    "tritonclient": ("eunomia.serving",),
    "sqlalchemy": ("eunomia.serving.tenants",),
    "alembic": ("eunomia.serving.tenants",),
    "prometheus_client": tuple(f"eunomia.serving.observe.{name}" for name in ("front", "metrics", "turns")),
    "hdrh": ("eunomia.serving.load",),
    "orjson": (
        "eunomia.serving.devices",
        "eunomia.serving.observe.twin",
        "eunomia.serving.protocol.json_work",
    ),
    "uvloop": ("eunomia.cli.serve",),
    "clarabel": ("eunomia.cluster",),
    "cma": ("eunomia.learning", "eunomia.cluster"),
    "gymnasium": ("eunomia.learning",),
    "tensorboard": ("eunomia.study.learning.board",),
    "cvxpy": (),
    "ecos": (),
    "yaml": ("eunomia.config", "eunomia.hardware.zigzag", "eunomia.cluster.traces.kubernetes"),
    "pydantic": ("eunomia.config",),
    "typer": ("eunomia.cli",),
    "rich": ("eunomia.cli",),
}
NOT_LOADED_BY_IMPORT = (
    "numba",
    "pyarrow",
    "pydantic",
    "onnx",
    "typer",
    "rich",
    "torch",
    "yaml",
    "numpy",
    "scipy",
)


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level library of every import, wherever it stands."""
    for one in imports_of(source):
        if one.module and not one.level:
            yield one.line, one.module.partition(".")[0]


def trespasses(package: Path) -> list[str]:
    return [
        f"{path.name}:{line}: {module} imports {library}"
        for module, path in modules(package)
        for line, library in imported(path.read_text(encoding="utf-8"))
        if library in EDGES and not module_within(module, EDGES[library])
    ]


def module_within(module: str, edges: tuple[str, ...]) -> bool:
    return any(module == edge or module.startswith((f"{edge}.", f"{edge}_")) for edge in edges)


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command as run; run()"
    return children.run(children.python("-c", program, "--no-cache"), cwd=directory)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its import contracts, to plant a mistake in."""
    shutil.copytree(PACKAGE, tmp_path / "eunomia", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold() -> None:
    done = lint(CHECKOUT)
    assert done.returncode == 0, done.stdout + done.stderr


PLANTED = {  # file, line -> what import-linter must say of it
    ("metrics/service.py", "import eunomia.report"): "eunomia.metrics.service -> eunomia.report (",
    ("workload/model.py", "from eunomia.hardware.table import CostTable"): (
        "eunomia.workload.model -> eunomia.hardware.table ("
    ),
    (
        "report/__init__.py",
        "import eunomia.inference.options",
    ): "eunomia.report -> eunomia.inference.options (",
    ("inference/options.py", "import eunomia.metrics"): "eunomia.inference.options -> eunomia.metrics (",
}


def test_planted_upward_imports_are_caught_each(copy: Path) -> None:
    """All at once, as one look at the package costs seconds; each stands in the report with its line."""
    for module, line in PLANTED:
        target = copy / "eunomia" / module
        target.write_text(target.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    done = lint(copy)
    assert done.returncode != 0 and "BROKEN" in done.stdout
    shown = " ".join(done.stdout.split())
    assert [said for said in PLANTED.values() if said not in shown] == []


def test_heavy_libraries_stay_at_the_edge() -> None:
    assert trespasses(PACKAGE) == []


def test_a_heavy_import_hidden_in_a_function_is_caught(copy: Path) -> None:
    target = copy / "eunomia" / "metrics" / "service.py"
    hidden = "\ndef hidden() -> None:\n    from torch import nn\n"
    target.write_text(target.read_text(encoding="utf-8") + hidden, encoding="utf-8")
    (found,) = trespasses(copy / "eunomia")
    assert found.startswith("service.py:") and found.endswith("eunomia.metrics.service imports torch")


def test_nobody_inside_comes_through_the_front_door() -> None:
    """``from eunomia import run`` inside the package would hide whom it imports; only the version is there."""
    found = [
        (module, name)
        for module, path in modules(PACKAGE)
        for one in imports_of(path.read_text(encoding="utf-8"))
        if one.module == "eunomia" and not one.level
        for name in one.names
        if name != "__version__" and not (PACKAGE / name).is_dir()
    ]
    assert found == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types alone count: who needs a circle to name a type has it in the wrong file."""
    assert circles(import_graph(CHECKOUT, ["eunomia"])) == []


def test_a_planted_circle_of_types_is_caught(copy: Path) -> None:
    target = copy / "eunomia" / "report" / "units.py"
    hidden = "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from eunomia.report import story\n"
    target.write_text(target.read_text(encoding="utf-8") + hidden, encoding="utf-8")
    (found,) = circles(import_graph(copy, ["eunomia"]))
    assert {"eunomia.report.units", "eunomia.report.story"} <= set(found)


def test_circles_are_the_sets_that_reach_each_other() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert circles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_import_is_light() -> None:
    """``import eunomia`` loads itself and some of the standard library: 0.02 s, against 1 s with all that it offers.

    What looks at a server's file before the start, and the load, need no simulator: 0.3 of 0.9 s until it is ready.
    """
    program = "import sys, eunomia; print(*sys.modules); import eunomia.study.serving.beforehand as first; "
    program += "import eunomia.study.serving.load as second; print(*sys.modules)"
    done = children.run(children.python("-c", program), cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    loaded, served = map(str.split, done.stdout.splitlines())
    assert not {"numba", "pyarrow", "eunomia.inference"} & set(served)
    assert not set(NOT_LOADED_BY_IMPORT) & {name.partition(".")[0] for name in loaded}
    assert [name for name in loaded if name.startswith("eunomia")] == ["eunomia"]
