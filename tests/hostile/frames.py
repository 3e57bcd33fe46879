"""HTTP/2 by hand, for what no library sends: frames, and headers as literals."""

from __future__ import annotations

from collections.abc import Mapping

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, AWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
KINDS = {HEADERS: "answer", RESET: "stream ended", AWAY: "connection ended"}


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """One frame."""
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def literal(name: str, value: str, *, kept: bool = False) -> bytes:
    """One header; ``kept``: in the server's table."""
    return (b"\x40" if kept else b"\0") + _text(name) + _text(value)


def _text(text: str) -> bytes:
    """A length in 7 bits and more, and the text as it is."""
    content, rest = text.encode(), len(text) - 127
    if rest < 0:
        return bytes([len(content)]) + content
    size = b"\x7f"
    while rest >= 128:
        size += bytes([rest % 128 + 128])
        rest //= 128
    return size + bytes([rest]) + content


def greeting() -> bytes:
    """What a client says first."""
    return PREFACE + frame(SETTINGS, 0, 0)


def call(
    stream: int, method: str, key: str, more: Mapping[str, str] | None = None, flags: int = END_HEADERS
) -> bytes:
    """The headers of an RPC."""
    headers = {
        ":method": "POST", ":scheme": "http", ":path": f"/inference.GRPCInferenceService/{method}",
        ":authority": "x", "te": "trailers", "content-type": "application/grpc",
        **({"authorization": f"Bearer {key}"} if key else {}), **(more or {}),
    }  # fmt: skip
    return frame(HEADERS, flags, stream, b"".join(literal(*pair) for pair in headers.items()))


def message(
    stream: int, content: bytes, *, size: int | None = None, packed: bool = False, flags: int = 0
) -> bytes:
    """A message of gRPC, or its beginning: ``size`` is what it says of itself."""
    head = bytes([packed]) + (len(content) if size is None else size).to_bytes(4, "big")
    whole = head + content
    pieces = [whole[at : at + 16384] for at in range(0, len(whole), 16384)]
    return b"".join(
        frame(DATA, flags if n == len(pieces) - 1 else 0, stream, p) for n, p in enumerate(pieces)
    )


def seen(content: bytes) -> list[str]:
    """What the frames of an answer say."""
    found, at = [], 0
    while at + 9 <= len(content):
        size, kind = int.from_bytes(content[at : at + 3], "big"), content[at + 3]
        if kind in KINDS:
            found.append(KINDS[kind])
        at += 9 + size
    return found
