"""Pages of the reference, each made from the code: name -> a function that gives its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checks.site.reference.command_line import command_line
from checks.site.reference.public_names import public_names
from checks.site.reference.schedulers import schedulers
from checks.site.reference.settings import settings

PAGES: Mapping[str, Callable[[], str]] = {
    "command-line": command_line,
    "settings": settings,
    "python": public_names,
    "schedulers": schedulers,
}
