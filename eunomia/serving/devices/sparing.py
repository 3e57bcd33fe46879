"""Keeps a process beside each device that may have one, with the networks that are in service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from eunomia.core.errors import ModelError
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.loading import LOAD_S, LoadedModel, Loading
from eunomia.serving.devices.memory import free_bytes, resident_bytes
from eunomia.serving.devices.spare import Spare
from eunomia.serving.protocol.errors import Unavailable

log = logging.getLogger("eunomia.serving")
LOOK_S = 1.0  # between two looks at what stands by
AFTER_S = 2.0  # of a device that has all its networks, before something stands by
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 600.0  # after one that did not come to stand by
ROOM = 2.0  # times what the device's own process takes must be free
PATIENCE = 10.0  # times as long may a load take that comes after all other work


class Sparing:
    """What a spare does not load, its device loads when that spare has taken its place."""

    def __init__(self, devices: Sequence[Device], loading: Loading) -> None:
        self._devices, self._loading = devices, loading
        self._refused: list[set[str]] = [set() for _ in devices]  # labels

    async def keep(self, device: Device, whole: Callable[[int], bool]) -> None:
        """For ever. ``whole``: whether the device of this number has all its networks."""
        pause_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(LOOK_S)
            if not whole(device.index):
                continue
            try:
                if device.spare is not None:
                    await self._follow(device, device.spare)
                    pause_s = FIRST_PAUSE_S
                elif _roomy(device):
                    await asyncio.sleep(AFTER_S)
                    if whole(device.index):
                        await device.stand_by()
            except (Unavailable, TimeoutError, OSError, ModelError) as error:
                log.warning(
                    "nothing stands by for device '%s': %s", device.spec.name, error or "it took too long"
                )
                device.dismiss()
                await asyncio.sleep(pause_s)
                pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    async def _follow(self, device: Device, spare: Spare) -> None:
        """What is in service, one network after another, is loaded there, and what is not is forgotten."""
        models = {model.label: model for model in self._loading.models.values()}
        for label in set(spare.kept) - set(models):
            spare.forget(label)
        refused = self._refused[device.index]
        refused &= set(models)
        for label in models:
            if label not in spare.kept and label not in refused and device.spare is spare:
                await self._load(device, spare, models[label])

    async def _load(self, device: Device, spare: Spare, model: LoadedModel) -> None:
        if not _roomy(device, spare):
            return
        try:
            await spare.load(self._loading.again(device, model), PATIENCE * LOAD_S)
        except ModelError:
            self._refused[device.index].add(model.label)
            if not spare.process.ready:
                raise


def _roomy(device: Device, spare: Spare | None = None) -> bool:
    """Whether this machine has room for as much as the device's own process takes."""
    taken = resident_bytes(device.pid) - (resident_bytes(spare.process.pid) if spare else 0)
    return free_bytes() >= ROOM * max(taken, 0)
