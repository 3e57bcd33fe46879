"""The heapq program narrowed to this one benchmark: it knows that each end frees the only idle accelerator.

With at least as many clients as accelerators nothing is idle between events, so placement disappears
and each event is one ``heappushpop`` and one ``heapreplace``. It cannot simulate anything else; it is
here as the ceiling of what plain Python does on this work.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heappushpop, heapreplace

from tests.inference.peers.work import PlainWork


def run(work: PlainWork) -> tuple[int, float, list[float]]:
    """EDF + fastest idle accelerator. Returns layers completed, time of the last end, finish times."""
    cost, demand, fastest = work.cost_s, work.demand, work.fastest
    last_row, relative, bandwidth = work.last_row, work.relative_deadline_s, work.bandwidth
    clients, requests, lanes = work.clients, len(work.first_row), len(work.cost_s[0])
    row = list(work.first_row)  # next layer of each request
    finish = [0.0] * requests
    ready = [(relative[k], k, k) for k in range(clients)]  # (deadline, sequence, request)
    heapify(ready)
    deadline = relative[:clients] + [0.0] * (requests - clients)
    sequence, events = clients, 0
    idle = set(range(lanes))
    running: list[tuple[float, int, int, float]] = []  # (virtual end, accelerator, request, demand)
    now = virtual = total = 0.0
    while ready and idle:
        k = heappop(ready)[2]
        at = next(s for s in fastest[row[k]] if s in idle)
        idle.discard(at)
        b = demand[row[k]][at]
        total += b
        heappush(running, (cost[row[k]][at], at, k, b))
    while running:
        end, at, k, b = running[0]
        now += (end - virtual) * (total / bandwidth if total > bandwidth else 1.0)
        virtual = end
        total -= b
        events += 1
        if row[k] < last_row[k]:
            row[k] += 1
            entry = (deadline[k], sequence, k)
        else:
            finish[k] = now
            k += clients
            if k >= requests:  # this client is done
                if ready:
                    entry = heappop(ready)
                else:
                    heappop(running)
                    idle.add(at)
                    continue
            else:
                deadline[k] = now + relative[k]
                entry = (deadline[k], sequence, k)
        sequence += 1
        if idle:  # only at the very end: fewer clients than accelerators
            heappop(running)
            idle.add(at)
            heappush(ready, entry)
            k = heappop(ready)[2]
            at = next(s for s in fastest[row[k]] if s in idle)
            idle.discard(at)
            b = demand[row[k]][at]
            total += b
            heappush(running, (virtual + cost[row[k]][at], at, k, b))
            continue
        k = heappushpop(ready, entry)[2]
        i = row[k]
        b = demand[i][at]
        total += b
        heapreplace(running, (virtual + cost[i][at], at, k, b))
    return events, now, finish
