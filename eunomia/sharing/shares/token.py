"""A client's end of the token: a program asks before it issues work, and gives the token back when it has none.

::

    with Token.of_environment() as token:
        for item in work:
            token.hold()  # returns while this program may issue work
            compute(item)
            token.sync()  # the device has finished what was issued: the end of a burst
"""

from __future__ import annotations

import json
import os
import socket
import time
from types import TracebackType

from eunomia.core.errors import ConfigError, EunomiaError

ACQUIRE: dict[str, object] = {"op": "acquire"}
SOCKET, CLIENT = "EUNOMIA_TOKEN", "EUNOMIA_CLIENT"  # variables of the environment


class Token:
    """One connection to the program that hands out the token. Raises EunomiaError where that one says no or ends."""

    def __init__(self, path: str, client: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"nobody hands out a token at '{path}': {error.strerror or error}") from None
        self._lines = self._socket.makefile("rb")
        self._until_s = self._began_s = self._longest_s = 0.0
        self._held = self._busy = False
        self._ask({"op": "join", "client": client})

    @classmethod
    def of_environment(cls) -> Token:
        """The token that ``EUNOMIA_TOKEN`` (a socket) and ``EUNOMIA_CLIENT`` (a name) point to."""
        path, client = os.environ.get(SOCKET), os.environ.get(CLIENT)
        if not path or not client:
            raise ConfigError(
                f"{SOCKET} and {CLIENT} are not both set; 'eunomia shares' sets them for its clients"
            )
        return cls(path, client)

    def hold(self) -> None:
        """Return as soon as work may be issued: at once within the quota, else after the token came back."""
        now_s = time.monotonic()
        if not self._held or now_s >= self._until_s:
            quota_s = self._ask(self._back("renew") if self._held else ACQUIRE).get("quota_s")
            if not isinstance(quota_s, int | float):
                raise EunomiaError(f"the token came with the quota {quota_s!r}, which is no number")
            now_s = time.monotonic()
            self._held, self._until_s = True, now_s + quota_s
        if not self._busy:
            self._busy, self._began_s = True, now_s

    def sync(self) -> None:
        """What was issued is done."""
        if self._busy:
            self._longest_s = max(self._longest_s, time.monotonic() - self._began_s)
            self._busy = False

    def release(self) -> None:
        """Give the token back: there is no work."""
        if self._held:
            self._held = False
            self._ask(self._back("release"))

    def _back(self, op: str) -> dict[str, object]:
        cut = self._busy
        self.sync()
        burst_s, self._longest_s = self._longest_s, 0.0
        return {"op": op, "burst_s": burst_s, "cut": cut}

    def close(self) -> None:
        """Leave; a token that is held goes back."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Token:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, message: dict[str, object]) -> dict[str, object]:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            line = self._lines.readline()
        except OSError:
            line = b""
        if not line:
            raise EunomiaError("the program that hands out the token has ended; start it again")
        answer: dict[str, object] = json.loads(line)
        if "error" in answer:
            raise EunomiaError(str(answer["error"]))
        return answer
