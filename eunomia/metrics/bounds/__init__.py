"""Clairvoyant upper bounds: what no scheduler can beat (docs/bounds.md). Needs highspy, ``eunomia[lp]``."""

from eunomia.metrics.bounds.hits import Bound, attainment_bound, hit_bound
from eunomia.metrics.bounds.instance import BoundOptions

__all__ = ["Bound", "BoundOptions", "attainment_bound", "hit_bound"]
