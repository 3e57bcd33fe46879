"""A large message is judged by what stands before its raw tensors: clients write a message's fields in their order.

Where others follow the tensors, or where it is packed, nobody judges it before it is here.
"""

from __future__ import annotations

from functools import partial

from eunomia.serving.fronts.exchange import Inference
from eunomia.serving.fronts.foresight import WORTH, Beginning
from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.protocol.fields import Heading
from eunomia.serving.protocol.infer import KNOWN_BYTES
from eunomia.serving.protocol.rpc import foretold
from eunomia.serving.visit import Caller


class Sight:
    """Looks at the messages of a call as they come.

    ``parted``: what stands before the only raw tensor, which ends the message, and where that begins; None = something
    else, or much, may stand there.
    """

    def __init__(self, inference: Inference, caller: Caller, tenant: str) -> None:
        self._inference, self._caller, self._tenant = inference, caller, tenant
        self._heading: Heading | None = None
        self.parted: tuple[bytes, int] | None = None

    def begin(self, size: int, *, packed: bool) -> None:
        """A message of so many bytes comes."""
        self._heading = Heading(size) if size >= WORTH and not packed else None

    def take(self, data: memoryview) -> None:
        """Some of it; raises ServingError as soon as it is known that the rest is in vain."""
        heading = self._heading
        if heading is None:
            return
        try:
            begun = heading.take(data)
        except ServingError as error:
            self._inference.service.unreadable(self._tenant, "", error)
            raise
        if begun:
            self._judge(heading)
            self._heading = None

    @property
    def content(self) -> bytes:
        """What is known of a message that is refused."""
        return b"" if self._heading is None else self._heading.content

    def _judge(self, heading: Heading) -> None:
        said, content = heading.unnamed, heading.content
        if not heading.left and len(content) <= KNOWN_BYTES:
            self.parted = content, heading.size - heading.first
        read = partial(foretold, content, heading.first, heading.left)
        come = Beginning((said, heading.first, heading.left), "", read, lambda: len(said) <= KNOWN_BYTES)
        self._inference.foresight.foresee(come, self._caller, self._tenant)
