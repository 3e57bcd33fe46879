"""Shares of one device: a token that one client holds at a time, after KubeShare (HPDC 2020) and Gemini (TCC 2021).

:mod:`scheduler` decides who holds it and for how long; it reads no clock and opens no socket. :mod:`simulate` drives
it in virtual time, :mod:`desk` and :mod:`front` for processes of this machine, :mod:`warden` for programs that know
no token.
"""

from eunomia.sharing.shares.scheduler import Grant, ShareRules, ShareScheduler
from eunomia.sharing.shares.simulate import Demand, Hold, simulate
from eunomia.sharing.shares.spec import ShareSpec

__all__ = ["Demand", "Grant", "Hold", "ShareRules", "ShareScheduler", "ShareSpec", "simulate"]
