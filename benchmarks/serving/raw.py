"""A client of almost nothing: one request's bytes, made beforehand, on one connection of HTTP that stays open."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence

from tritonclient.http import InferenceServerClient, InferInput

from benchmarks.serving.load import IMAGE
from eunomia.core.errors import OutputError
from eunomia.serving.load.plan import LoadStream

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)")


class RawClient:
    """For one user: it waits for the whole answer in the kernel, without an event loop."""

    def __init__(self, url: str, _: str, streams: Sequence[LoadStream], timeout_s: float) -> None:
        host, _, port = url.partition(":")
        self._host, self._stream = url, streams[0]
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def prepare(self, _: Mapping[str, Sequence[int]], __: int) -> None:
        """The stock client makes the body."""
        tensor = InferInput("image", list(IMAGE.shape), "FP32")
        tensor.set_data_from_numpy(IMAGE)
        body, json_bytes = InferenceServerClient.generate_request_body([tensor])
        head = (
            f"POST /v2/models/{self._stream.model}/infer HTTP/1.1\r\nHost: {self._host}\r\n"
            f"x-tenant-id: {self._stream.tenant}\r\nInference-Header-Content-Length: {json_bytes}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + bytes(body)

    async def send(self, _: int) -> None:
        """One request; its answer is thrown away."""
        self.ask()

    def ask(self) -> bytes:
        """The body of the answer. Raises OutputError for any other status than 200, and without an answer."""
        self._socket.sendall(self._request)
        seen, end, whole = b"", -1, None
        while whole is None or len(seen) < whole:
            piece = self._socket.recv(2**16)
            if not piece:
                raise OutputError(f"{self._host} closed the connection after {len(seen)} bytes of an answer")
            seen += piece
            if whole is None and (end := seen.find(b"\r\n\r\n") + 4) > 3:
                length = LENGTH.search(seen[:end].lower())
                if not seen.startswith(b"HTTP/1.1 200 ") or length is None:
                    raise OutputError(f"{self._host} answered {seen[:end].decode(errors='replace')!r}")
                whole = end + int(length[1])
        return seen[end:]

    async def close(self) -> None:
        """End the connection."""
        self._socket.close()
