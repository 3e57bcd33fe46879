"""Where a device may work: every place once, with the module of the process that stands for it here."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from eunomia.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Place:
    """One place. ``worker``: module of the process that speaks for the device, with the messages of ``messages``.

    ``spare``: of one that stands by, "" where none can. ``start_s``: a worker that has not said "ready" by then never
    will. ``hang_s``: on top of a multiple of its estimate, a run that lasts longer hangs. ``far``: it does not see the
    flags of the arena, and gets them as messages.
    """

    worker: str
    start_s: float
    hang_s: float
    far: bool = False
    needs: str | None = None
    install: str = ""
    spare: str = ""

    def arguments(self, kind: str, address: str, resource: str, pipe: int) -> list[str]:
        """What its process needs besides line, arena, device, cores, memory and cache."""
        return [kind, address, resource] if self.far else [str(pipe)]


PLACES: dict[str, Place] = {
    "process": Place("eunomia.serving.devices.worker", 30.0, 2.0, spare="eunomia.serving.devices.stand_by"),
    "ray": Place("eunomia.serving.devices.ray.relay", 90.0, 30.0, True, "ray", "pip install 'eunomia[ray]'"),
}

if TYPE_CHECKING:
    PlaceName: TypeAlias = str
else:
    PlaceName = Literal[tuple(PLACES)]


def place_must_be_installed(device: str, name: str) -> None:
    """Raise ConfigError where a device's place needs a package that is missing."""
    place = PLACES[name]
    if place.needs is not None and importlib.util.find_spec(place.needs) is None:
        raise ConfigError(
            f"device '{device}': on = \"{name}\" needs the package {place.needs}, which is not installed: "
            f"{place.install}"
        )
