"""Two heaps: pairing heaps of waiting sub-jobs (linked through NODE) and a binary heap of timers."""

from __future__ import annotations

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, Record, node_at, think_at, timer_at


@jitted
def before(k: Kernel, a: int, b: int) -> bool:
    """Whether node a leaves before node b: smaller key, then earlier sequence."""
    if node_at(k, a).key != node_at(k, b).key:
        return node_at(k, a).key < node_at(k, b).key
    return node_at(k, a).sequence < node_at(k, b).sequence


@jitted
def meld(k: Kernel, a: int, b: int) -> int:
    """Root of the union of two heaps (-1 = empty)."""
    if a < 0:
        return b
    if b < 0:
        return a
    if before(k, b, a):
        a, b = b, a
    node_at(k, b).sibling = node_at(k, a).child
    node_at(k, a).child = b
    return a


@jitted
def push(k: Kernel, root: int, node: int) -> int:
    """Add one node; returns the new root."""
    node_at(k, node).child = -1
    node_at(k, node).sibling = -1
    return meld(k, root, node)


@jitted
def pop(k: Kernel, root: int) -> int:
    """Remove the root; returns the new one. Two-pass pairing: amortised O(log n)."""
    child = node_at(k, root).child
    pairs = -1
    while child >= 0:  # meld neighbours, left to right, stacking the results
        second = node_at(k, child).sibling
        if second < 0:
            node_at(k, child).sibling = pairs
            pairs = child
            break
        rest = node_at(k, second).sibling
        node_at(k, child).sibling = -1
        node_at(k, second).sibling = -1
        both = meld(k, child, second)
        node_at(k, both).sibling = pairs
        pairs = both
        child = rest
    root = -1
    while pairs >= 0:  # meld the stack, right to left
        rest = node_at(k, pairs).sibling
        node_at(k, pairs).sibling = -1
        root = meld(k, pairs, root)
        pairs = rest
    return root


@jitted
def _timer(k: Kernel, think: bool, i: int) -> Record:
    """Row i of one of the two heaps: closed-loop requests in their think time, or drop timers."""
    return think_at(k, i) if think else timer_at(k, i)


@jitted
def _earlier(x: Record, y: Record) -> bool:
    if x.time_s != y.time_s:
        return x.time_s < y.time_s
    if x.request != y.request:
        return x.request < y.request
    return x.layer < y.layer


@jitted
def _swap(x: Record, y: Record) -> None:
    time_s, request, layer, slot, generation = x.time_s, x.request, x.layer, x.slot, x.generation
    x.time_s, x.request, x.layer, x.slot, x.generation = y.time_s, y.request, y.layer, y.slot, y.generation
    y.time_s, y.request, y.layer, y.slot, y.generation = time_s, request, layer, slot, generation


@jitted
def push_timer(
    k: Kernel, think: bool, count: int, time_s: float, request: int, layer: int, slot: int, generation: int
) -> None:
    """Add a timer to the heap of the first ``count`` rows."""
    new = _timer(k, think, count)
    new.time_s, new.request, new.layer, new.slot, new.generation = time_s, request, layer, slot, generation
    child = count
    while child > 0:
        parent = (child - 1) // 2
        if not _earlier(_timer(k, think, child), _timer(k, think, parent)):
            return
        _swap(_timer(k, think, child), _timer(k, think, parent))
        child = parent


@jitted
def pop_timer(k: Kernel, think: bool, count: int) -> None:
    """Move the earliest of ``count`` timers behind the others, to row ``count - 1``."""
    last = count - 1
    _swap(_timer(k, think, 0), _timer(k, think, last))
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            return
        if child + 1 < last and _earlier(_timer(k, think, child + 1), _timer(k, think, child)):
            child += 1
        if not _earlier(_timer(k, think, child), _timer(k, think, parent)):
            return
        _swap(_timer(k, think, child), _timer(k, think, parent))
        parent = child
