"""A client of TLS whose records are its own to make: as short as it likes, sent together or in halves."""

from __future__ import annotations

import ssl


def trusting() -> ssl.SSLContext:
    """Of a client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Speaker:
    """Makes the bytes to be sent, and takes those that came."""

    def __init__(self, protocol: str = "") -> None:
        context = trusting()
        if protocol:
            context.set_alpn_protocols([protocol])
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._side = context.wrap_bio(self._came, self._goes)
        self.greeted = False

    def greet(self, came: bytes = b"") -> bytes:
        """The next bytes of the handshake; ``greeted`` once it is over."""
        self._came.write(came)
        try:
            self._side.do_handshake()
            self.greeted = True
        except ssl.SSLWantReadError:
            pass
        return self._goes.read()

    def say(self, data: bytes, each: int = 1) -> bytes:
        """Records of so many bytes each."""
        for at in range(0, len(data), each):
            self._side.write(data[at : at + each])
        return self._goes.read()

    def hear(self, came: bytes) -> bytes:
        """What the other side says."""
        self._came.write(came)
        found = b""
        try:
            while data := self._side.read(65536):
                found += data
        except ssl.SSLWantReadError:
            pass
        return found
