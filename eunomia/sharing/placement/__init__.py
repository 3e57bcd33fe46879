"""Which server takes an application: Paragon's two steps and its rivals, on tolerated and caused interference."""

from eunomia.sharing.placement.completion import complete
from eunomia.sharing.placement.rules import RULES, Apps, Servers

__all__ = ["RULES", "Apps", "Servers", "complete"]
