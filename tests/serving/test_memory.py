"""The garbage collector must not stop a server that is ready."""

from __future__ import annotations

from tests import children

SERVER = """
import gc
from eunomia.serving.server import Server
from eunomia.serving.devices.memory import set_aside
before = len(gc.get_objects())
set_aside()
after = len(gc.get_objects())
cycle = []
cycle.append(cycle)
del cycle
assert gc.collect() >= 1, "what dies later is still found"
print(before, after, gc.get_freeze_count())
"""

MEASUREMENT = """
import gc
from eunomia.serving.devices.memory import undisturbed
print(gc.get_freeze_count())
with undisturbed():
    print(gc.get_freeze_count())
    with undisturbed():
        print(gc.get_freeze_count())
print(gc.get_freeze_count())
"""


def test_what_was_loaded_before_is_not_looked_through_again() -> None:
    result = children.run(children.python("-c", SERVER), check=True)
    before, after, frozen = map(int, result.stdout.split())
    assert before > 50_000 and frozen > 50_000
    assert after < 1000


def test_a_measurement_leaves_no_traces() -> None:
    """In a process of its own: of this one, all that lived before the tests is set aside (``tests/conftest.py``)."""
    done = children.run(children.python("-c", MEASUREMENT), check=True)
    before, inside, nested, after = map(int, done.stdout.split())
    assert before == after == 0 and nested >= inside > 1000
