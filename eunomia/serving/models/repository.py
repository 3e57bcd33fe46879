"""Networks that the server offers: files on disk in versions, loaded and unloaded on request."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os.path import commonprefix
from pathlib import Path

from eunomia.core.errors import ConfigError, ModelError, OutputError
from eunomia.serving.blocks.glance import must_look_right
from eunomia.serving.devices.cutting import Away
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.models.beside import Beside, Reader, nothing, read_beside
from eunomia.serving.models.doubts import doubts
from eunomia.serving.models.entry import BETWEEN, UNLOADED, Entry, key_of, ports_of
from eunomia.serving.models.folder import NAME, Found, look_through
from eunomia.serving.models.labels import Labels, check_labels, must_lie_in, read_labels
from eunomia.serving.models.looks import Looks
from eunomia.serving.models.pbtxt import with_tritons
from eunomia.serving.models.remembered import Remembered
from eunomia.serving.models.to_the_end import to_the_end
from eunomia.serving.models.turn import Turn
from eunomia.serving.protocol.errors import BadRequest, NotFound, ServingError, Unavailable
from eunomia.serving.protocol.reshape import presented
from eunomia.serving.tenants.grants import Grant

log = logging.getLogger("eunomia.serving")
AWAY_S = 1.0  # until one may ask again who found no device
MOST_NAMED, MOST_COMPARED = 20, 100  # networks in an error message; letters of a name with theirs


class Repository:
    """The networks of a configuration and of a folder: ``NAME.onnx``, ``NAME/model.onnx`` or ``NAME/N/model.onnx``.

    Only names found there can be loaded: a name never becomes a path; the log says which files have no such name. Of
    numbered folders the newest ``versions`` are served; a request that names none gets the newest that is ready.
    ``read``: the file beside a network, at each load.
    """

    def __init__(
        self,
        pool: DevicePool,
        folder: Path | None = None,
        entries: Iterable[Entry] = (),
        versions: int = 1,
        read: Reader = nothing,
        kept: Remembered | None = None,
    ) -> None:
        """``kept``: where names of the folder's networks stand that are loaded; None = they are forgotten."""
        self._pool, self._folder, self._versions, self._read = pool, folder, versions, read
        self._kept = kept
        self.remembered = kept.read() if kept is not None else {}  # name -> versions to be loaded at a start
        self._entries = {entry.key: entry for entry in entries}
        self._newest: dict[str, str] = {}  # name -> key of the newest version that is ready
        self.tried = set[str]()  # known names whose load has ended, well or not
        self.turn = Turn()  # held while networks come and go
        self._misnamed: set[Path] = set()  # that the log has named
        self._looks = None if folder is None else Looks(partial(look_through, folder), self._see)
        self.rescan()

    @property
    def grows(self) -> bool:
        """Whether networks may come that are not known yet."""
        return self._folder is not None

    def rescan(self) -> None:
        """Look for new files in the folder; versions that have gone from it, and serve nobody, are forgotten."""
        if self._folder is not None:
            self._see(look_through(self._folder))

    async def look(self) -> None:
        """The same, beside the event loop."""
        if self._looks is not None:
            await self._looks.fresh()

    def _see(self, found: Found) -> None:
        for path in sorted(found.misnamed.keys() - self._misnamed):
            log.warning("models_dir: %s", found.misnamed[path])
            self._misnamed.add(path)
        own = {entry.name for entry in self._entries.values() if not entry.found}
        for (name, version), (path, beside) in found.networks.items():
            if NAME.fullmatch(name) and name not in own:
                known = self._entries.get(key_of(name, version))
                if known is None:
                    known = Entry(name, path, found=True, version=version)
                    self._entries[known.key] = known
                known.path, known.beside = path, beside
        for key, entry in list(self._entries.items()):
            if entry.found and entry.ports is None and (entry.name, entry.version) not in found.networks:
                del self._entries[key]

    def entries(self, *, ready_only: bool = False) -> list[Entry]:
        """All networks, in order of name and version."""
        found = sorted(self._entries.values(), key=lambda entry: (entry.name, int(entry.version)))
        return [entry for entry in found if entry.state == "READY"] if ready_only else found

    @property
    def names(self) -> list[str]:
        """Of all networks, once each."""
        return list(dict.fromkeys(entry.name for entry in self.entries()))

    def has(self, name: str) -> bool:
        """Whether a network has this name, loaded or not; the key of a version is no name."""
        if BETWEEN in name:
            return False
        return name in self._entries or any(entry.name == name for entry in self._entries.values())

    def key(self, name: str) -> str | None:
        """Of the version that a request gets which names none; None = no such network."""
        return self.entry(name).key if self.has(name) else None

    def versions(self, name: str, *, ready_only: bool = False) -> list[Entry]:
        """Of one network, the newest first."""
        return [entry for entry in self.entries(ready_only=ready_only) if entry.name == name][::-1]

    def ready_versions(self, name: str) -> list[str]:
        """Of one network, the oldest first."""
        return [entry.version for entry in self.versions(name, ready_only=True)][::-1]

    def entry(self, name: str, version: str = "") -> Entry:
        """A known network: that version, or the newest that is ready; raises NotFound, as stock clients await."""
        entry = None
        if BETWEEN not in name:
            entry = self._entries.get(key_of(name, version) if version else self._newest.get(name, name))
        if entry is not None and (version or entry.state == "READY"):
            return entry
        if not self.has(name):
            raise NotFound(f"Request for unknown model '{name[:100]}'")
        known = self.versions(name)
        if version:
            there = ", ".join(entry.version for entry in reversed(known))
            raise NotFound(f"model '{name}' has version {there} only, not '{version[:50]}'")
        return next((entry for entry in known if entry.state == "READY"), known[0])

    def entries_for(self, grant: Grant, *, ready_only: bool = False) -> list[Entry]:
        """Networks that a tenant may know of: those that it may use; an administrator, all."""
        return [e for e in self.entries(ready_only=ready_only) if _knows(grant, e.name)]

    def entry_for(self, grant: Grant, name: str, version: str = "") -> Entry:
        """A network that the tenant may know of; raises NotFound."""
        if not _knows(grant, name):
            raise self.unknown(grant, name)
        try:
            return self.entry(name, version)
        except NotFound:
            if self.has(name):  # not in this version
                raise
            raise self.unknown(grant, name) from None

    def ports_for(self, grant: Grant, name: str, version: str = "") -> Ports:
        """Inputs and outputs of a network that the tenant may know of; raises NotFound or Unavailable."""
        return ports_of(self.entry_for(grant, name, version))

    def unknown(self, grant: Grant, name: str) -> NotFound:
        """Readiness alone, which asks for no key, tells none from one that is for others; what is for it, is said."""
        may = [entry for entry in self.entries() if grant.may_use(entry.name)]
        ready = {entry.name for entry in may if entry.state == "READY"}
        listed = _listed(name, (entry.name for entry in may if entry.name in ready))
        if others := [entry.name for entry in may if entry.name not in ready]:
            listed += f"; not ready: {_listed(name, others)}"
        return NotFound(f"Request for unknown model '{name[:100]}'; tenant '{grant.name}' may use: {listed}")

    def ports(self, name: str, version: str = "") -> Ports:
        """Inputs and outputs of a network that is ready; raises NotFound or Unavailable."""
        return ports_of(self.entry(name, version))

    async def load_listed(self) -> None:
        """Those of the server's file; raises one ModelError with a line for each that does not load."""
        faults = list[str]()
        for entry in [entry for entry in self._entries.values() if not entry.found]:
            try:
                await self.load(entry.name, tell=False)
            except (BadRequest, Unavailable) as error:
                faults.append(str(error))
        if faults:
            raise ModelError("\n".join(faults))

    async def load(self, name: str, only: Collection[str] = (), *, tell: bool = True) -> None:
        """Load, or load anew, to the end even if who asked has gone away; raises NotFound, BadRequest or Unavailable.

        The newest version first; older ones serve until it is ready, and go on if it does not load. ``only``: of these
        versions, if files of some are there. ``tell``: the log has why it does not load. It waits for others, but not
        for one that goes on for long (``Turn``); what can be refused by a look at its file does not wait.
        """
        await self.look()
        try:
            await to_the_end(self._load(name, only), tell=tell)
        finally:
            if self.has(name):
                self.tried.add(name)

    async def _load(self, name: str, only: Collection[str]) -> None:
        self._must_have(name)
        known = self.versions(name)
        with self._telling(known[0], Beside()):
            await asyncio.to_thread(_one_must_look_right, [entry.path for entry in known])
        async with self.turn.of(name):
            self._must_have(name)
            known = self.versions(name)
            said = await asyncio.to_thread(self._said, known[0])
            there, why = self._chosen(known, only, Beside() if isinstance(said, ConfigError) else said)
            for n, entry in enumerate(there):
                if n == 0 or entry.state != "READY":
                    await self._load_one(entry, said)
                    self._newest[name] = self.versions(name, ready_only=True)[0].key
            for entry in known:
                if entry not in there and not (only and entry.ports is None):
                    self._unload(entry, why)
            self._newest[name] = there[0].key
            await self.look()
            if there[0].found:
                await self._remember({**self.remembered, name: [entry.version for entry in there]})

    def _chosen(self, known: list[Entry], only: Collection[str], said: Beside) -> tuple[list[Entry], str]:
        """Versions to be served, the newest first, and why others are not; raises BadRequest."""
        there = [entry.version for entry in known if entry.path.exists()] or [known[0].version]
        wanted = [version for version in there if version in only] or there
        served, why = said.serves(wanted, self._versions)
        served = served or said.serves(there, self._versions)[0]
        if not served:
            raise BadRequest(
                f"model '{known[0].name}' does not load: no version that version_policy names is there"
            )
        return [entry for entry in known if entry.version in served], why

    async def _load_one(self, entry: Entry, said: Beside | ConfigError) -> None:
        if entry.ports is None:
            entry.state, entry.reason = "LOADING", "loading"
        with self._telling(entry, said):
            if isinstance(said, ConfigError):
                raise said
            labels = await asyncio.to_thread(read_labels, said.labels)
            path, shapes = str(entry.path), dict(said.shapes)
            ports = await self._pool.load(entry.key, path, shapes, apart=said.rows_apart)
            entry.ports = self._seen(entry, labels, ports, said)
            for doubt in doubts(entry, entry.ports, said):
                log.warning("network '%s': %s", entry.key, doubt)
            entry.shapes, entry.empty, entry.labels = said.shapes, said.empty, said.labels
            entry.rows_apart = said.rows_apart
        entry.state, entry.reason = "READY", ""

    @contextmanager
    def _telling(self, entry: Entry, said: Beside | ConfigError) -> Iterator[None]:
        """Why it does not load, inside the block: for the index, unless it serves, and for who asked."""
        try:
            yield
        except BaseException as error:
            why = str(error) or type(error).__name__
            if isinstance(said, Beside) and said.dims:
                why = re.sub("^shapes", "by the dims of config.pbtxt, shapes", why)
            if entry.ports is None:
                entry.state, entry.reason = "UNAVAILABLE", why
            if isinstance(error, Away):
                raise Unavailable(
                    f"model '{entry.key}' does not load: {error}", retry_after_s=AWAY_S
                ) from None
            if isinstance(error, ConfigError | ModelError | ServingError):
                raise BadRequest(f"model '{entry.key}' does not load: {why}") from None
            raise

    def _said(self, entry: Entry) -> Beside | ConfigError:
        """What holds of all versions, or what is wrong with it."""
        if not entry.found or entry.beside is None or self._folder is None:
            return Beside(entry.shapes, entry.empty, entry.labels, rows_apart=entry.rows_apart)
        try:
            said = with_tritons(read_beside(self._read, entry.beside), entry.beside)
            must_lie_in(said.labels, (self._folder, entry.beside.parent))
        except ConfigError as error:
            return error
        return said

    def _seen(self, entry: Entry, labels: Labels, ports: Ports, said: Beside) -> Ports:
        """As clients see it. One that serves goes on, as it has just been loaded. Raises ConfigError."""
        try:
            check_labels(labels, [port["name"] for port in ports["outputs"]])
            seen = presented(ports, said.reshapes)
            return {**seen, "labels": labels, "formats": said.formats, "most_rows": said.most_rows}
        except ConfigError:
            if entry.ports is None:
                self._pool.unload(entry.key)
            else:
                with suppress(ConfigError):
                    ports = presented(ports, entry.ports.get("reshapes", {}))
                entry.ports = {
                    **ports,
                    "labels": entry.ports.get("labels", {}),
                    "formats": entry.ports.get("formats", {}),
                    "most_rows": entry.ports.get("most_rows", 0),
                }
            raise

    def away(self, key: str, why: str) -> None:
        """No device has this network any more; without a reason, one has it again."""
        entry = self._entries.get(key)
        if entry is not None and entry.ports is not None:
            entry.state, entry.reason = "UNAVAILABLE" if why else "READY", why

    async def unload(self, name: str) -> None:
        """Take a network out of service, in all versions; raises NotFound or Unavailable. It waits as a load does."""
        self._must_have(name)
        await to_the_end(self._unload_all(name))

    def _must_have(self, name: str) -> None:
        """For administrators, who may know of all; raises NotFound."""
        if not self.has(name):
            listed = _listed(name, (entry.name for entry in self.entries()))
            raise NotFound(f"Request for unknown model '{name[:100]}'; there are: {listed}")

    async def _unload_all(self, name: str) -> None:
        async with self.turn.of(name):
            self._newest.pop(name, None)
            for entry in self.versions(name):
                self._unload(entry, UNLOADED)
            await self._remember({n: v for n, v in self.remembered.items() if n != name})

    async def _remember(self, loaded: dict[str, list[str]]) -> None:
        """Written down before the administrator has an answer; raises Unavailable."""
        if loaded == self.remembered or self._kept is None:
            return
        try:
            await asyncio.to_thread(self._kept.write, loaded)
        except OutputError as error:
            raise Unavailable(f"it is done, but a restart will not know of it: {error}") from None
        self.remembered = loaded

    def _unload(self, entry: Entry, reason: str) -> None:
        self._pool.unload(entry.key)
        entry.ports, entry.state, entry.reason = None, "UNAVAILABLE", reason


def _one_must_look_right(newest_first: Iterable[Path]) -> None:
    """Raises ModelError, of the newest, where no version has a file that may be a network."""
    faults = list[ModelError]()
    for path in newest_first:
        try:
            return must_look_right(path)
        except ModelError as error:
            faults.append(error)
    raise faults[0]


def _listed(asked: str, known: Iterable[str]) -> str:
    """Names; of many, first those that begin most like it."""
    names = [*dict.fromkeys(known)]
    if len(names) <= MOST_NAMED:
        return ", ".join(names) or "none"
    wanted = asked[:MOST_COMPARED].lower()
    names.sort(key=lambda name: len(commonprefix((name.lower(), wanted))), reverse=True)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"


def _knows(grant: Grant, name: str) -> bool:
    return grant.role == "admin" or grant.may_use(name)
