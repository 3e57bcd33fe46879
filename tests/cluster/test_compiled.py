"""The cluster wing runs where numba finds no folder to keep machine code in."""

from __future__ import annotations

from tests import children

SCRIPT = """
import numba.core.caching as caching
for implementation in (caching.CacheImpl, caching.CompileResultCacheImpl):
    implementation._locator_classes = []
from eunomia.core.compiled import compiled

@compiled
def half(x):
    return x / 2

assert half(3.0) == 1.5
import eunomia.cluster.round_core, eunomia.cluster.solver.interior, eunomia.cluster.policies.themis.division
print("fine")
"""


def test_without_a_folder_for_machine_code() -> None:
    done = children.run(children.python("-c", SCRIPT))
    assert done.stdout.strip() == "fine", done.stderr
