"""Calls that are over: what may still come of them, and what breaks the rules (RFC 9113, 5.1)."""

from __future__ import annotations

from eunomia.serving.http2.frames import Code, Fault

KEPT = 256  # calls; of older ones whatever comes is ignored


class Past:
    """Of one connection."""

    def __init__(self) -> None:
        self._may_come: dict[
            int, bool
        ] = {}  # by number: this side ended it, before it knew that the other had
        self._forgotten = 0  # the greatest number that is not kept

    def add(self, number: int, *, may_come: bool) -> None:
        """A call is over. ``may_come``: the client may have sent more before it knew."""
        self._may_come[number] = may_come
        if len(self._may_come) > KEPT:
            oldest = next(iter(self._may_come))
            del self._may_come[oldest]
            self._forgotten = max(self._forgotten, oldest)

    def ended(self, number: int) -> bool:
        """Whether the client had ended it, so that nothing of it may come."""
        return not self._may_come.get(number, True)

    def must_allow(self, number: int) -> None:
        """A head comes of a call that is not open; raises Fault for one that cannot."""
        if self.ended(number):
            raise Fault(Code.STREAM_CLOSED, "a head of a call that its client has ended")
        if number > self._forgotten and number not in self._may_come:
            raise Fault(Code.PROTOCOL_ERROR, "calls begin in the order of their numbers")
