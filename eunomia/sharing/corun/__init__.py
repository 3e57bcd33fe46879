"""The co-run harness: how much slower a client runs beside others on this machine, measured.

:mod:`design` says what is measured and when it is enough; :mod:`worker` is a client as a process, :mod:`crew` several
of them on chosen cores; :mod:`stressors` load one resource each. :mod:`store` keeps blocks on disk.
"""

from eunomia.sharing.corun.design import Block, Case, Design, cases_of, log_ratios

__all__ = ["Block", "Case", "Design", "cases_of", "log_ratios"]
