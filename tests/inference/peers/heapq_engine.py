"""A good plain-Python program: two heaps and virtual time.

All running layers progress at the same rate, so a layer ends when the virtual clock (dv = rate dt) reaches
its start + cost: a change of bandwidth moves no entry of the heap.
"""

from __future__ import annotations

from heapq import heappop, heappush

from tests.inference.peers.work import PlainWork


def run(work: PlainWork) -> tuple[int, float, list[float]]:
    """EDF + fastest idle accelerator. Returns layers completed, time of the last end, finish times."""
    cost, demand, bandwidth = work.cost_s, work.demand, work.bandwidth
    last_row, relative = work.last_row, work.relative_deadline_s
    clients, requests = work.clients, len(work.first_row)
    row = list(work.first_row)  # next layer of each request
    deadline, finish = list(relative), [0.0] * requests
    ready: list[tuple[float, int, int]] = []  # (deadline, sequence, request)
    running: list[tuple[float, int, int, float]] = []  # (virtual end, accelerator, request, demand)
    idle = list(range(len(cost[0])))  # in order of index
    for k in range(clients):
        heappush(ready, (deadline[k], k, k))
    sequence, events = clients, 0
    now = virtual = total = 0.0
    while True:
        while ready and idle:
            k = heappop(ready)[2]
            here = cost[row[k]]
            at = min(idle, key=here.__getitem__) if len(idle) > 1 else idle[0]
            idle.remove(at)
            b = demand[row[k]][at]
            total += b
            heappush(running, (virtual + here[at], at, k, b))
        if not running:
            return events, now, finish
        end, at, k, b = heappop(running)
        now += (end - virtual) * (total / bandwidth if total > bandwidth else 1.0)
        virtual = end
        total -= b
        events += 1
        idle.append(at)
        idle.sort()
        if row[k] < last_row[k]:
            row[k] += 1
        else:
            finish[k] = now
            k += clients
            if k >= requests:
                continue
            deadline[k] = now + relative[k]
        heappush(ready, (deadline[k], sequence, k))
        sequence += 1
