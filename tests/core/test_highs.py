"""HiGHS writes nothing where a command prints one JSON document."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
from eunomia.core.highs import silent_solver
print("before")
for _ in range(2):
    silent_solver().run()
print("after")
"""


def test_a_solver_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["before", "after"] and not done.stderr


def test_a_process_without_standard_output_solves() -> None:
    child = f"import os; os.close(1); {CHILD.replace('print', 'str')}".replace("; \n", "\n")
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
