"""Names to import paths: loaded on first use, extended by entry points of installed packages."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from eunomia.core.errors import UnknownNameError


class Registry:
    """A table ``name -> "package.module:attribute"``.

    An entry is imported at its first use, so optional dependencies stay optional. Other
    packages add names with entry points of ``group``; a built-in name always wins over them.
    """

    def __init__(self, kind: str, group: str, table: dict[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._table = dict(table)
        self._plugins: dict[str, EntryPoint] | None = None

    def plugins(self) -> dict[str, EntryPoint]:
        """Names added by installed packages."""
        if self._plugins is None:
            found = entry_points(group=self.group)
            self._plugins = {e.name: e for e in found if e.name not in self._table}
        return self._plugins

    def names(self) -> list[str]:
        """All known names, built-in first, in a stable order."""
        return [*self._table, *sorted(self.plugins())]

    def __contains__(self, name: object) -> bool:
        return name in self._table or name in self.plugins()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def path(self, name: str) -> str:
        """Where a name comes from, without importing it."""
        if name in self._table:
            return self._table[name]
        if name in self.plugins():
            return self.plugins()[name].value
        raise UnknownNameError(self.kind, name, self.names())

    def load(self, name: str) -> Any:
        """Import and return the object behind ``name``; raises UnknownNameError."""
        if name not in self._table and name in self.plugins():
            return self.plugins()[name].load()
        module, _, attribute = self.path(name).partition(":")
        return getattr(importlib.import_module(module), attribute)
