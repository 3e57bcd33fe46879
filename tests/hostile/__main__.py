"""Bronze's process: lines of JSON come in, names of attacks and seconds; what bronze was told goes out."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from tests.hostile import ATTACKS, TLS
from tests.hostile.bronze import carry_out_all

POLITE = 10  # niceness: on two cores it must not win against the server by taking its core


def main(http: str, grpc: str) -> None:
    """Until nobody writes any more."""
    host, port = http.split(":")
    os.nice(POLITE)
    print("ready", flush=True)
    for line in sys.stdin:
        names, seconds = json.loads(line)
        attacks = [(ATTACKS | TLS)[name] for name in names]
        found = asyncio.run(carry_out_all(attacks, (host, int(port)), grpc, seconds))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
