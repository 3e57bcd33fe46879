"""The round core in plain Python: obvious, slow, the oracle of the compiled one."""

from __future__ import annotations


def pick(
    entries: list[tuple[int, int]], members: list[tuple[int, ...]], scale: list[int], free: list[int]
) -> dict[int, int]:
    """unit -> type, serving (unit, type) in order."""
    chosen: dict[int, int] = {}
    placed: set[int] = set()
    for unit, kind in entries:
        if scale[unit] <= free[kind] and not placed & set(members[unit]):
            free[kind] -= scale[unit]
            placed |= set(members[unit])
            chosen[unit] = kind
    return chosen


def place(
    chosen: dict[int, int], scale: list[int], before: dict[int, dict[int, int]], free: list[int],
    servers_of: list[list[int]], rack: list[int], style: str,
) -> dict[int, dict[int, int]]:  # fmt: skip
    """unit -> {server: devices}: larger units first, each where it was if that is free."""
    placed: dict[int, dict[int, int]] = {}
    for size in sorted({scale[u] for u in chosen}, reverse=True):
        group = [u for u in sorted(chosen) if scale[u] == size]
        for unit in group:
            was = before.get(unit, {})
            same_type = was and all(s in servers_of[chosen[unit]] for s in was) and sum(was.values()) == size
            if same_type and all(free[s] >= n for s, n in was.items()):
                placed[unit] = dict(was)
                for s, n in was.items():
                    free[s] -= n
        for unit in group:
            if unit not in placed:
                placed[unit] = _assign(size, servers_of[chosen[unit]], free, rack, style)
    return placed


def _assign(need: int, servers: list[int], free: list[int], rack: list[int], style: str) -> dict[int, int]:
    given: dict[int, int] = {}

    def take(server: int, count: int) -> None:
        free[server] -= count
        given[server] = given.get(server, 0) + count

    if style == "strided":
        for server in servers:
            count = min(free[server], need - sum(given.values()))
            if count:
                take(server, count)
        return given
    if style == "spread":
        for _ in range(need):
            take(max(servers, key=lambda s: (free[s], -s)), 1)
        return given
    whole = [s for s in servers if free[s] >= need]
    if whole:
        take(min(whole, key=lambda s: (free[s], s)), need)
        return given
    racks = {r: sum(free[s] for s in servers if rack[s] == r) for r in sorted({rack[s] for s in servers})}
    fitting = [r for r in racks if racks[r] >= need]
    if fitting:
        best = min(fitting, key=lambda r: (racks[r], r))
        servers = [s for s in servers if rack[s] == best]
    while sum(given.values()) < need:
        server = max(servers, key=lambda s: (free[s], -s))
        take(server, min(free[server], need - sum(given.values())))
    return given
