"""Queue discipline of one device: which waiting tasks start now, together with what, and instead of what.

:mod:`device` is the simulated device; :mod:`irina` decides by estimated sum of completion times. :mod:`fifo` holds
its rivals, :mod:`optimum` searches small cases to the end.
"""

from eunomia.sharing.queueing.device import Decision, Device, Served, Task, Unit, serve
from eunomia.sharing.queueing.fifo import MaxBatch, shortest_first
from eunomia.sharing.queueing.irina import Irina
from eunomia.sharing.queueing.optimum import least_sum
from eunomia.sharing.queueing.tables import ExecutionTables, Network, read_tables

__all__ = [
    "Decision",
    "Device",
    "ExecutionTables",
    "Irina",
    "MaxBatch",
    "Network",
    "Served",
    "Task",
    "Unit",
    "least_sum",
    "read_tables",
    "serve",
    "shortest_first",
]
