"""Run every notebook from its first cell to its last, each in an empty folder: ``make notebooks``.

    python -m checks.notebooks                    # notebooks/*.ipynb
    python -m checks.notebooks --write own_policy # and keep what the cells print: for readers without Jupyter

The cells run in one Python namespace, without Jupyter; the value of a last line is printed as its repr.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"


def main(arguments: list[str]) -> int:
    """0 where every cell of every notebook runs."""
    names = [word for word in arguments if not word.startswith("--")]
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            begun_s = time.perf_counter()
            notebook = executed(path)
            print(f"{path.stem}: {time.perf_counter() - begun_s:.1f} s")
            if "--write" in arguments:
                path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def executed(path: Path) -> dict[str, Any]:
    """The notebook with what its cells print. Raises what a cell raises, with its number."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory(prefix="eunomia-notebook-") as folder, contextlib.chdir(folder):
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, cell in enumerate(cells, 1):
            try:
                text = run("".join(cell["source"]), names, f"{path.name}[{number}]")
            except Exception as error:
                error.add_note(f"in cell {number} of {path.name}")
                raise
            cell["execution_count"] = number
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": [text]}] if text else []
    return notebook


def run(source: str, names: dict[str, Any], where: str) -> str:
    """Run a cell; what it prints, and the value of its last line."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, where, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
