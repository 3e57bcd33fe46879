"""Memory that is reserved and not used, inspired by Kube-Knots (CLUSTER 2019): who may be put beside whom on less.

:mod:`series` forecasts one series; :mod:`rules` holds correlation-based provisioning (CBP) and peak prediction (PP).
"""

from eunomia.sharing.harvest.rules import Node, admit, correlated, pack
from eunomia.sharing.harvest.series import Series, read_series

__all__ = ["Node", "Series", "admit", "correlated", "pack", "read_series"]
