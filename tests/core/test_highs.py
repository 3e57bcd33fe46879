"""HiGHS writes nothing where a command prints one JSON document."""

from __future__ import annotations

from tests import children

CHILD = """
from eunomia.core.highs import silent_solver
print("before")
for _ in range(2):
    silent_solver().run()
print("after")
"""


def test_a_solver_prints_nothing() -> None:
    done = children.run(children.python("-c", CHILD), check=True)
    assert done.stdout.split() == ["before", "after"] and not done.stderr


def test_a_process_without_standard_output_solves() -> None:
    child = f"import os; os.close(1); {CHILD.replace('print', 'str')}".replace("; \n", "\n")
    done = children.run(children.python("-c", child))
    assert done.returncode == 0, done.stderr
