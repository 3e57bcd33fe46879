"""Shares of accounts and users as ``sshare -a -P`` writes them: the tree by indentation, ``RawShares`` per line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from eunomia.cluster.traces.lines import text_lines
from eunomia.core.errors import TraceError

NEEDED = ("Account", "User", "RawShares")


@dataclass(frozen=True)
class Shares:
    """``paths``: account -> its path from the root; ``raw``: shares by path of accounts and users."""

    paths: dict[str, str] = field(default_factory=dict)
    raw: dict[str, float] = field(default_factory=dict)

    def path_of(self, tenant: str) -> str:
        """``account/user`` with the whole path of the account, where it is known."""
        account, slash, user = tenant.partition("/")
        return f"{self.paths.get(account, account)}{slash}{user}"


def read_shares(path: str | Path) -> Shares:
    """Raises TraceError."""
    path = Path(path)
    lines = text_lines(path)
    number, head = next(lines, (1, ""))
    names = head.rstrip("|").split("|")
    for name in NEEDED:
        if name not in names:
            raise TraceError("this column is missing; write the file with sshare -a -P", path, number, name)
    found = Shares()
    above: list[str] = []  # accounts from the root to the last one
    for line, text in lines:
        cells = text.rstrip("\n").split("|")
        if len(cells) < len(names):
            raise TraceError(f"this line has {len(cells)} fields, the header has {len(names)}", path, line)
        cell = dict(zip(names, cells, strict=False))
        account, user, raw = cell["Account"].strip(), cell["User"].strip(), cell["RawShares"].strip()
        depth = len(cell["Account"]) - len(cell["Account"].lstrip(" "))
        if account == "root":
            continue
        if not user:
            above = [*above[: max(depth - 1, 0)], account]
            found.paths[account] = "/".join(above)
        name = "/".join(filter(None, (found.paths.get(account, account), user)))
        if raw == "parent":
            continue
        try:
            found.raw[name] = float(raw)
        except ValueError:
            found.raw[name] = math.nan
        if not (math.isfinite(found.raw[name]) and found.raw[name] >= 0.0):
            raise TraceError(
                f"'{raw[:40]}' is no number of shares; write it as sshare does", path, line, "RawShares"
            )
    if not found.raw:
        raise TraceError("the file has a header but no shares; write it with sshare -a -P", path)
    return found
