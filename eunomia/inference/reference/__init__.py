"""The engine once more, in plain Python: slow, obvious, written from docs/engine.md; the oracle of the tests."""

from eunomia.inference.reference.records import Decision, Interval, Outcome, Run
from eunomia.inference.reference.rules import Rule
from eunomia.inference.reference.run import simulate

__all__ = ["Decision", "Interval", "Outcome", "Rule", "Run", "simulate"]
