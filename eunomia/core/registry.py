"""Names to import paths: loaded on first use, extended by entry points and by files of one's own."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from eunomia.core.errors import ConfigError, EunomiaError, UnknownNameError
from eunomia.core.own_file import from_file, split_file


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
        """Where a name comes from, without importing it. Raises UnknownNameError."""
        if name in self._table:
            return self._table[name]
        if name in self.plugins():
            return self.plugins()[name].value
        raise UnknownNameError(self.kind, name, self.names())

    def load(self, name: str) -> object:
        """Import and return the object behind a registered name.

        Raises UnknownNameError, and ConfigError for an entry point that cannot be imported.
        """
        if name not in self._table and name in self.plugins():
            return self._plugin(self.plugins()[name])
        module, _, attribute = self.path(name).partition(":")
        return getattr(importlib.import_module(module), attribute)

    def resolve(self, text: str) -> object:
        """``load`` of a name that the user of this machine wrote: ``FILE.py:NAME`` as well, which runs the file."""
        own = split_file(text)
        return self.load(text) if own is None else from_file(*own, self.kind)

    def _plugin(self, entry: EntryPoint) -> object:
        try:
            found: object = entry.load()
            return found
        except EunomiaError:
            raise
        except (Exception, SystemExit) as error:  # whatever a foreign package raises
            package = entry.dist.name if entry.dist is not None else "an installed package"
            raise ConfigError(
                f"{self.kind} '{entry.name}' of {package} ({entry.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error


PLAIN = (bool, int, float, str)
KINDS: dict[str, tuple[type, ...]] = {"bool": (bool,), "float": (float, int), "int": (int,)}
NAMES = {bool: "true or false", float: "a number", int: "a whole number"}


def made(found: object, settings: Mapping[str, object], what: str) -> object:
    """What a class or function gives for keyword settings. Raises ConfigError for settings that it does not take."""
    if not callable(found):
        raise ConfigError(f"{what} is {found!r}, which cannot be called; it must be a class or a function")
    _check(inspect.signature(found).parameters, settings, what)
    try:
        return found(**settings)
    except TypeError as error:
        given = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        raise ConfigError(f"{what} cannot be set up with ({given}): {error}") from error


def _check(known: Mapping[str, inspect.Parameter], settings: Mapping[str, object], what: str) -> None:
    """Raise for a setting that is not there, or whose value is not of its plain kind."""
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return
    asked = (None, inspect.Parameter.empty)
    offered = [
        k
        for k, p in known.items()
        if not k.startswith("_") and (isinstance(p.default, PLAIN) or any(p.default is a for a in asked))
    ]
    for key, value in settings.items():
        if key not in known and not offered:
            raise ConfigError(f"{what} takes no settings; leave out {key}={value!r}")
        if key not in known or key.startswith("_"):
            raise UnknownNameError("setting", key, offered, f" of {what}")
        kind = KINDS.get(getattr(known[key].annotation, "__name__", str(known[key].annotation)))
        if kind and (isinstance(value, bool) is not (kind[0] is bool) or not isinstance(value, kind)):
            raise ConfigError(f"{what}: {key} is {value!r}; it must be {NAMES[kind[0]]}")
