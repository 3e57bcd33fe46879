"""Networks that the server offers: files on disk, loaded and unloaded on request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eunomia.core.errors import ModelError
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.protocol.errors import BadRequest, NotFound, ServingError, Unavailable
from eunomia.serving.tenants.grants import Grant

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
VERSION = "1"
MOST_NAMED = 20  # networks in an error message


@dataclass
class Entry:
    """One network: its file, what is known of it, and its state as the protocol names it."""

    name: str
    path: Path
    shapes: Mapping[str, list[int]] = field(default_factory=dict)
    state: str = "UNAVAILABLE"
    reason: str = "not loaded"
    ports: Ports | None = None


class Repository:
    """The networks of a configuration and of a folder of ``*.onnx`` files.

    Only names found there can be loaded: a name never becomes a path. Each network has one version, 1.
    """

    def __init__(self, pool: DevicePool, folder: Path | None = None, entries: Iterable[Entry] = ()) -> None:
        self._pool, self._folder = pool, folder
        self._entries = {entry.name: entry for entry in entries}
        self._lock = asyncio.Lock()
        self.rescan()

    @property
    def grows(self) -> bool:
        """Whether networks may come that are not known yet."""
        return self._folder is not None

    def rescan(self) -> None:
        """Look for new files in the folder."""
        if self._folder is None:
            return
        for path in sorted(self._folder.glob("*.onnx")):
            if NAME.fullmatch(path.stem):
                self._entries.setdefault(path.stem, Entry(path.stem, path))

    def entries(self, *, ready_only: bool = False) -> list[Entry]:
        """All networks, in order of name."""
        found = sorted(self._entries.values(), key=lambda entry: entry.name)
        return [entry for entry in found if entry.state == "READY"] if ready_only else found

    def has(self, name: str) -> bool:
        """Whether a network has this name, loaded or not."""
        return name in self._entries

    def entry(self, name: str, version: str = "") -> Entry:
        """A known network; raises NotFound."""
        entry = self._entries.get(name)
        if entry is None:
            raise NotFound(f"unknown model '{name[:100]}'")
        if version not in ("", VERSION):
            raise NotFound(f"model '{name}' has version {VERSION} only, not '{version[:50]}'")
        return entry

    def entries_for(self, grant: Grant, *, ready_only: bool = False) -> list[Entry]:
        """Networks that a tenant may know of: those that it may use; an administrator, all."""
        return [e for e in self.entries(ready_only=ready_only) if _knows(grant, e.name)]

    def entry_for(self, grant: Grant, name: str, version: str = "") -> Entry:
        """A network that the tenant may know of; raises NotFound."""
        if not self.has(name) or not _knows(grant, name):
            raise self.unknown(grant, name)
        return self.entry(name, version)

    def ports_for(self, grant: Grant, name: str, version: str = "") -> Ports:
        """Inputs and outputs of a network that the tenant may know of; raises NotFound or Unavailable."""
        return self.ports(self.entry_for(grant, name, version).name, version)

    def unknown(self, grant: Grant, name: str) -> NotFound:
        """Whether there is none or it is not for this tenant is not said; what there is for it, is."""
        names = [entry.name for entry in self.entries() if grant.may_use(entry.name)]
        listed = ", ".join(names[:MOST_NAMED]) or "none"
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        return NotFound(f"unknown model '{name[:100]}'; tenant '{grant.name}' may use: {listed}{more}")

    def ports(self, name: str, version: str = "") -> Ports:
        """Inputs and outputs of a network that is ready; raises NotFound or Unavailable."""
        entry = self.entry(name, version)
        if entry.ports is None or entry.state != "READY":
            soon_s = 1.0 if entry.state == "LOADING" else None
            raise Unavailable(f"model '{name}' is not ready: {entry.reason}", retry_after_s=soon_s)
        return entry.ports

    async def load(self, name: str) -> None:
        """Load, or load anew, to the end even if who asked has gone away; raises NotFound or BadRequest."""
        self.rescan()
        await asyncio.shield(self._load(self.entry(name)))

    async def _load(self, entry: Entry) -> None:
        async with self._lock:
            entry.state, entry.reason = (
                ("LOADING", "loading") if entry.ports is None else (entry.state, entry.reason)
            )
            try:
                entry.ports = await self._pool.load(entry.name, str(entry.path), entry.shapes)
            except BaseException as error:
                if entry.ports is None:
                    entry.state, entry.reason = "UNAVAILABLE", str(error) or type(error).__name__
                if isinstance(error, ModelError | ServingError):
                    raise BadRequest(f"model '{entry.name}' does not load: {error}") from None
                raise
            entry.state, entry.reason = "READY", ""

    async def unload(self, name: str) -> None:
        """Take a network out of service; raises NotFound."""
        entry = self.entry(name)
        async with self._lock:
            self._pool.unload(name)
            entry.ports, entry.state, entry.reason = None, "UNAVAILABLE", "unloaded"


def _knows(grant: Grant, name: str) -> bool:
    return grant.role == "admin" or grant.may_use(name)
