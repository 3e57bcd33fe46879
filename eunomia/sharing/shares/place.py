"""Which device takes a client with a promised share: KubeShare's filter by labels, then the tightest fit."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from eunomia.core.errors import ConfigError
from eunomia.sharing.shares.spec import ROUNDING, ShareSpec

NEW: Final = "new"
KEYS = {"request", "limit", "memory_bytes", "affinity", "anti_affinity", "exclusion"}


@dataclass(frozen=True, slots=True)
class Labelled:
    """A client with labels. ``affinity``: onto one device with all others of that label.

    ``anti_affinity``: never beside another of that label. ``exclusion``: beside others of that label only; without
    the label, never beside one that has it.
    """

    spec: ShareSpec
    affinity: str = ""
    anti_affinity: str = ""
    exclusion: str = ""


@dataclass
class Shared:
    """A device that is open, and who is on it. ``memory_bytes``: None = not counted."""

    memory_bytes: int | None = None
    clients: list[Labelled] = field(default_factory=list)

    @property
    def left(self) -> float:
        """The part that nobody was promised."""
        return 1.0 - sum(client.spec.request for client in self.clients)

    def fits(self, asked: Labelled) -> bool:
        """Whether time and memory are left."""
        held = sum(client.spec.memory_bytes or 0 for client in [*self.clients, asked])
        room = self.memory_bytes is None or held <= self.memory_bytes
        return room and asked.spec.request <= self.left + ROUNDING

    def welcomes(self, asked: Labelled, exclusion: bool = True) -> bool:
        """Whether labels allow it; ``exclusion`` off: such labels are ignored."""
        if asked.anti_affinity and any(c.anti_affinity == asked.anti_affinity for c in self.clients):
            return False
        return not exclusion or all(c.exclusion == asked.exclusion for c in self.clients)


def place(asked: Labelled, devices: Sequence[Shared], free: int, exclusion: bool = True) -> int | str | None:
    """Number of an open device, NEW for one of the ``free`` ones, None if there is none.

    Tightest fit; with an affinity label the device of that label or, if nobody has it yet, the loosest one. Does badly
    where an affinity group outgrows its device: the client has to wait, whatever is free.
    """
    fitting = [
        n for n, device in enumerate(devices) if device.fits(asked) and device.welcomes(asked, exclusion)
    ]
    if asked.affinity:
        home = [n for n, d in enumerate(devices) if any(c.affinity == asked.affinity for c in d.clients)]
        if home:
            return next((n for n in home if n in fitting), None)
        if fitting:
            return max(fitting, key=lambda n: devices[n].left)
    elif fitting:
        return min(fitting, key=lambda n: devices[n].left)
    return NEW if free > 0 else None


def place_all(
    clients: Sequence[Labelled], devices: int, memory_bytes: int | None = None, exclusion: bool = True
) -> list[int | None]:
    """The device of each client, in the order in which they come; None: it has to wait.

    Raises ConfigError for a client that no device could hold.
    """
    opened: list[Shared] = []
    found: list[int | None] = []
    for asked in clients:
        if not Shared(memory_bytes).fits(asked):
            raise ConfigError(
                f"client '{asked.spec.name}' may hold {asked.spec.memory_bytes} bytes; a device has {memory_bytes}"
            )
        where = place(asked, opened, devices - len(opened), exclusion)
        if where == NEW:
            opened.append(Shared(memory_bytes))
            where = len(opened) - 1
        if isinstance(where, int):
            opened[where].clients.append(asked)
        found.append(where if isinstance(where, int) else None)
    return found


def read_clients(path: Path) -> list[Labelled]:
    """``[client.NAME]`` with ``request`` and perhaps limit, memory_bytes and labels. Raises ConfigError."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a TOML file that can be read: {error}") from None
    sections = content.get("client")
    if not isinstance(sections, dict) or not sections:
        raise ConfigError(f"{path}: no section [client.NAME]; give each client one, with its request")
    return [_client(path, name, section) for name, section in sections.items()]


def _client(path: Path, name: str, section: object) -> Labelled:
    if not isinstance(section, dict) or "request" not in section or set(section) - KEYS:
        raise ConfigError(
            f"{path}: client '{name}' takes request and perhaps {', '.join(sorted(KEYS - {'request'}))}"
        )
    numbers = {key: section.get(key) for key in ("request", "limit", "memory_bytes") if key in section}
    labels = {key: section.get(key, "") for key in ("affinity", "anti_affinity", "exclusion")}
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in numbers.values()):
        raise ConfigError(f"{path}: client '{name}': request, limit and memory_bytes are numbers")
    if not all(isinstance(label, str) for label in labels.values()):
        raise ConfigError(f"{path}: client '{name}': labels are texts")
    memory = numbers.get("memory_bytes")
    spec = ShareSpec(
        name,
        float(section["request"]),
        float(section.get("limit", 1.0)),
        None if memory is None else int(memory),
    )
    return Labelled(spec, **labels)
