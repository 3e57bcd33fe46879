"""Keeps a process beside each device that may have one, with the networks that are in service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic

from eunomia.core.errors import ModelError
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.loading import LoadedModel, Loading, again_s
from eunomia.serving.devices.memory import NoDescriptor, free_bytes, machine_bytes, own_bytes
from eunomia.serving.devices.spare import Ended, Spare
from eunomia.serving.protocol.errors import Unavailable

log = logging.getLogger("eunomia.serving")
LOOK_S = 1.0  # between two looks at what stands by
AFTER_S = 2.0  # of a device that has all its networks, before something stands by
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 600.0  # after one that did not come to stand by, or ended by itself
ROOM = 2.0  # times what the device's own process takes must be free
LEAST_FREE = 0.05  # of the machine's memory; with less, what stands by makes room
LOAD_S = 3600.0  # on a core that is hardly ever idle a load takes long


class Sparing:
    """What a spare does not load, its device loads when that spare has taken its place."""

    def __init__(self, devices: Sequence[Device], loading: Loading) -> None:
        self._devices, self._loading = devices, loading
        self._off = False
        self._later: dict[
            tuple[int, str], tuple[int, float]
        ] = {}  # device, label -> times in vain, not before
        self._told: set[tuple[int, str]] = set()  # what the log says already

    def stop(self) -> None:
        """Nothing stands by any more: the server ends, or another process takes over."""
        self._off = True
        for device in self._devices:
            device.dismiss()

    def expects(self, device: Device) -> bool:
        """Whether one will stand by, with all networks, as far as the log says."""
        return not self._off and device.index not in {index for index, _ in self._told}

    async def keep(self, device: Device, whole: Callable[[int], bool]) -> None:
        """Until ``stop``. ``whole``: whether the device of this number has all its networks."""
        pause_s, began_s, mine = FIRST_PAUSE_S, 0.0, None
        while not self._off:
            await asyncio.sleep(LOOK_S)
            try:
                if device.spare is None and mine is not None and mine.outside is False:
                    raise Unavailable("it ended by itself")
                if mine is not None and (device.spare is not mine or _age_s(began_s) > LONGEST_PAUSE_S):
                    pause_s = FIRST_PAUSE_S  # it was of use, or stood well
                mine = device.spare
                if not whole(device.index) or self._off:
                    continue
                if mine is not None:
                    await self._follow(device, mine)
                elif self._roomy(device):
                    await asyncio.sleep(AFTER_S)
                    if whole(device.index) and not self._off and self._roomy(device):
                        began_s, mine = monotonic(), device.another()
                        await device.stand_by(mine)
            except Ended:
                continue
            except NoDescriptor as error:  # what stands by goes on to
                self._say(device, f"no more stands by for device '{device.spec.name}': {error.strerror}")
            except (Unavailable, TimeoutError, OSError) as error:
                if device.spare is not mine and (mine is None or mine.outside is not False):
                    continue  # it was not needed any more, or somebody ended it
                why = str(error) or "it took too long"
                log.warning("nothing stands by for device '%s': %s", device.spec.name, why)
                device.dismiss()
                mine = None
                await asyncio.sleep(pause_s)
                pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    async def _follow(self, device: Device, spare: Spare) -> None:
        """What is in service, one network after another, is loaded there, and what is not is forgotten."""
        if (free_bytes() or 0) < LEAST_FREE * machine_bytes():
            raise Unavailable("memory is short")
        models = {model.label: model for model in self._loading.models.values()}
        for label in set(spare.kept) - set(models):
            spare.forget(label)
        for key in [key for key in self._later if key[0] == device.index and key[1] not in models]:
            del self._later[key]
        for label, model in models.items():
            if label not in spare.kept and device.spare is spare and self._due(device, label):
                spare.complete = False
                await self._load(device, spare, model)
        spare.complete = set(spare.kept) >= set(models)

    def _due(self, device: Device, label: str) -> bool:
        return monotonic() >= self._later.get((device.index, label), (0, 0.0))[1]

    async def _load(self, device: Device, spare: Spare, model: LoadedModel) -> None:
        if not self._roomy(device):
            return
        try:
            await spare.load(self._loading.again(device, model), LOAD_S)
        except ModelError as error:
            self._put_off(device, model, str(error))
        except Ended:
            if spare.outside is False:
                self._put_off(device, model, "it ended the process")
            raise

    def _put_off(self, device: Device, model: LoadedModel, why: str) -> None:
        key = device.index, model.label
        tries = self._later.get(key, (0, 0.0))[0]
        self._later[key] = tries + 1, monotonic() + again_s(tries)
        name = model.network.name
        self._say(device, f"network '{name}' is not kept ready for device '{device.spec.name}': {why}")

    def _roomy(self, device: Device) -> bool:
        """Whether this machine has room for what the device's own process takes, beside what others are to load yet."""
        owed = sum(
            max(own_bytes(one.pid) - own_bytes(one.spare.process.pid), 0)
            for one in self._devices
            if one.spare is not None
        )
        need = own_bytes(device.pid)
        room = (free_bytes() or 0) >= owed + (ROOM - (device.spare is not None)) * need
        if not room:
            self._say(device, f"nothing stands by for device '{device.spec.name}': too little memory is free")
        return room

    def _say(self, device: Device, text: str) -> None:
        """Once."""
        if (device.index, text) not in self._told:
            self._told.add((device.index, text))
            log.warning("%s", text)


def _age_s(began_s: float) -> float:
    return monotonic() - began_s
