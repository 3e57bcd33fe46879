"""A process that stands by: it loads the networks of its device, and takes its place when that dies.

A device that hangs in one node, which nothing ends in its midst, is away for half a second otherwise: its process has
to be started, and each network loaded and tried. The price is memory: the networks' weights once more.
"""

from __future__ import annotations

import asyncio

from eunomia.core.errors import ModelError
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.process import DeviceProcess


class Ended(Exception):
    """A process that stood by has ended, or is not needed any more."""


class Spare:
    """``kept``: by label, what it said of each network that it has loaded. ``complete``: those are all in service.

    ``outside``: an operator's signal ended it; None while nothing has, or where the server did.
    """

    def __init__(self, process: DeviceProcess) -> None:
        self.process = process
        self.kept: dict[str, Message] = {}
        self.complete = False
        self.outside: bool | None = None
        self._loading: asyncio.Future[Message] | None = None

    @property
    def settled(self) -> bool:
        """It loads nothing just now, so that it can take its device's place at once."""
        return self._loading is None and self.process.runs

    async def load(self, message: Message, most_s: float) -> None:
        """One network, behind whatever else its core has to do; raises ModelError, Ended, and TimeoutError."""
        self._loading = asyncio.get_running_loop().create_future()
        try:
            if not self.process.tell({**message, "polite": True}):
                raise Ended
            async with asyncio.timeout(most_s):
                self.kept[message["model"]] = await self._loading
        finally:
            self._loading = None

    def forget(self, label: str) -> None:
        """Nobody needs this network any more."""
        if self.kept.pop(label, None) is not None:
            self.process.tell({"kind": "unload", "model": label})

    def heard(self, message: Message) -> None:
        """It has loaded a network, or says why not."""
        if self._loading is None or self._loading.done():
            return
        if message["kind"] == "loaded":
            self._loading.set_result(message)
        else:
            self._loading.set_exception(ModelError(message["why"]))

    def end(self) -> None:
        """It is not needed, or has ended."""
        self.process.discard()
        if self._loading is not None and not self._loading.done():
            self._loading.set_exception(Ended())
