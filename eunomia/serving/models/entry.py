"""One version of a network that the server offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eunomia.serving.devices.messages import Ports
from eunomia.serving.models.folder import VERSION
from eunomia.serving.protocol.errors import Unavailable

NOT_LOADED, UNLOADED = "not loaded", "unloaded"
BETWEEN = "/"  # of name and version; no name holds it


@dataclass
class Entry:
    """One version of a network: its file, what is known of it, and its state as the protocol names it."""

    name: str
    path: Path
    shapes: Mapping[str, list[int]] = field(default_factory=dict)
    state: str = "UNAVAILABLE"
    reason: str = NOT_LOADED
    ports: Ports | None = None
    found: bool = False  # in the folder, not in the server's file
    version: str = VERSION
    empty: bool | None = None  # inputs may be so behind the first axis; None = a trial decides
    labels: Mapping[str, str] = field(default_factory=dict)  # of outputs: the file of their classes' names
    beside: Path | None = (
        None  # of one in the folder: the file that says ``shapes``, ``empty``, ``labels`` and ``rows_apart``
    )
    rows_apart: bool | None = None  # each row is answered as if it were alone; None = a proof decides

    @property
    def key(self) -> str:
        """What devices call it: the name, behind it the version unless it is the first."""
        return key_of(self.name, self.version)

    @property
    def options(self) -> str:
        """Where its owner gives them; clients see no folders of this machine's."""
        if self.beside is None:
            return f"the [[network]] of '{self.name}'"
        folder = f"{self.beside.parent.name}/" if self.beside.name == "config.toml" else ""
        return f"{folder}{self.beside.name} of models_dir"


def key_of(name: str, version: str) -> str:
    """What devices call a version: the network's name, behind it the number unless it is the first."""
    return name if version == VERSION else f"{name}{BETWEEN}{version}"


def named(key: str) -> tuple[str, str]:
    """Name and version behind a key."""
    name, _, version = key.partition(BETWEEN)
    return name, version or VERSION


def ports_of(entry: Entry) -> Ports:
    """Inputs and outputs of a network that is ready; raises Unavailable."""
    if entry.ports is None or entry.state != "READY":
        soon_s = 1.0 if entry.state == "LOADING" else None
        text = f"model '{entry.key}' is not ready: {entry.reason}"
        if entry.reason in (NOT_LOADED, UNLOADED):
            text += f"; an administrator loads it by POST /v2/repository/models/{entry.name}/load"
            text += ", or a start with load_all = true"
        raise Unavailable(text, retry_after_s=soon_s)
    return entry.ports
