"""The head of an HTTP request in its plain form, the one that inference clients send.

What is not plain (a name twice, chunks, upgrades, expectations) is not refused here: aiohttp reads it. So nothing is
taken that aiohttp would read otherwise. What is no HTTP/1, or too long, is refused here, before anybody works on it.
The offer to go on in HTTP/2 (``Upgrade: h2c``: Java's client makes it) may be left alone (RFC 9110, 7.8), and is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from eunomia.serving.protocol.errors import BadRequest, HeadTooLarge, OtherVersion, ServingError

MOST, MOST_FIELDS = 16 * 1024, 128  # bytes and fields of a head
END = b"\r\n\r\n"
LINE = re.compile(r"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (/[!-~]*) HTTP/1\.1")
FIELD = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*+((?:[!-~](?:[ -~\t]*[!-~])?)?)[ \t]*")
INFER = re.compile(
    r"/v2/models/([A-Za-z0-9_~-][A-Za-z0-9._~-]*)(?:/versions/([A-Za-z0-9_~-][A-Za-z0-9._~-]*))?/infer"
)
BEGIN = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,32} [^ ].* HTTP/1\.[01]\r?")
HTTP2 = b"PRI * HTTP/2.0\r"  # its first line
SIZE = re.compile(r"[0-9]{1,12}")
STRANGE = (
    "transfer-encoding",
    "expect",
    "content-encoding",
    "trailer",
    "te",
    "sec-websocket-key1",
)
LASTS = frozenset(("keep-alive", "upgrade", "http2-settings"))  # words of a connection that goes on


@dataclass(frozen=True, slots=True)
class Head:
    """``size``: bytes of the body behind it; ``headers``: by name in small letters.

    ``infers``: network and version of an inference request; None = it is none.
    """

    method: str
    path: str
    size: int
    headers: Mapping[str, str]
    infers: tuple[str, str] | None


def fault_of(data: bytes) -> ServingError | None:
    """Why bytes that begin a request, or are its head, are not taken; None = they may become one, or are."""
    first, end, _ = data[: MOST + 1].lstrip(b"\r\n").partition(b"\n")
    if (
        not first.isascii()
        or not first[:16].decode().rstrip("\r").isprintable()
        or (not first and len(data) >= len(END))
    ):
        return BadRequest("these bytes are no HTTP")
    if end and first == HTTP2:
        return OtherVersion("this port speaks HTTP/1.1, and the request came in HTTP/2")
    if end and BEGIN.fullmatch(first) is None:
        return BadRequest("the first line is none of an HTTP/1.1 request")
    if len(data) > MOST:
        return HeadTooLarge(f"the head of the request has more than {MOST} bytes")
    if data.count(b"\n") > MOST_FIELDS + 2:
        return HeadTooLarge(f"the request has more than {MOST_FIELDS} header fields")
    return None


def read_head(data: bytes) -> Head | None:
    """A head with its empty line; None where it is not plain. Nothing is kept: it may hold a key."""
    lines = data[: -len(END)].decode("latin-1").split("\r\n")
    first = LINE.fullmatch(lines[0])
    if first is None or len(data) > MOST:
        return None
    headers: dict[str, str] = {}
    for line in lines[1:]:
        field = FIELD.fullmatch(line)
        if field is None or field[1].lower() in headers:
            return None
        headers[field[1].lower()] = field[2]
    size = headers.get("content-length", "0")
    if "host" not in headers or any(name in headers for name in STRANGE) or not SIZE.fullmatch(size):
        return None
    if headers.get("upgrade", "h2c").lower() != "h2c":
        return None
    words = headers.get("connection", "keep-alive").lower()
    if words != "keep-alive" and not LASTS.issuperset(word.strip(" \t") for word in words.split(",")):
        return None
    found = INFER.fullmatch(first[2]) if first[1] == "POST" and "content-length" in headers else None
    return Head(first[1], first[2], int(size), headers, (found[1], found[2] or "") if found else None)
