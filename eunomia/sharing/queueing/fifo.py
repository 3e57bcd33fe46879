"""Queue disciplines that estimate nothing: max batch plus timeout, and shortest first."""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.core.errors import ConfigError
from eunomia.sharing.queueing.device import TINY_S, Decision, Device

WAIT = Decision("wait")


@dataclass(frozen=True)
class MaxBatch:
    """First come, first served; a batch starts when it is full, or when its oldest task has waited ``timeout_s``.

    The rule of TF-Serving's batching and its peers. ``largest`` 1: no batching at all. ``slots`` 2: a second batch runs
    beside the first. Does badly under light load (waits for nothing) and where a long batch blocks short tasks.
    """

    timeout_s: float = 0.0
    largest: int = 1_000_000
    slots: int = 1

    def __post_init__(self) -> None:
        if not self.timeout_s >= 0.0:
            raise ConfigError(f"max batch: timeout_s is {self.timeout_s}; 0 or more")

    def __call__(self, device: Device) -> Decision:
        """Start the ready batch whose first task is the oldest."""
        if len(device.running) >= self.slots:
            return WAIT
        ready, wake_s = [], float("inf")
        for network, queue in enumerate(device.waiting):
            if not queue:
                continue
            size = min(len(queue), len(device.tables.networks[network].batch_s), self.largest)
            full = size == min(len(device.tables.networks[network].batch_s), self.largest)
            due_s = queue[0].arrival_s + self.timeout_s
            if full or due_s <= device.now_s + TINY_S:
                ready.append((queue[0].arrival_s, network, size))
            else:
                wake_s = min(wake_s, due_s)
        if not ready:
            return Decision("wait", until_s=wake_s)
        _, network, size = min(ready)
        if device.running:
            return Decision("stack", network, size)
        return Decision("run" if size == 1 else "batch", network, size)


def shortest_first(device: Device) -> Decision:
    """Least seconds per task first, as large a batch as waits; never two at once, never a pause."""
    if device.running:
        return WAIT
    choices = []
    for network, queue in enumerate(device.waiting):
        if queue:
            times = device.tables.networks[network].batch_s
            size = min(len(queue), len(times))
            choices.append((times[size - 1] / size, network, size))
    if not choices:
        return WAIT
    _, network, size = min(choices)
    return Decision("run" if size == 1 else "batch", network, size)
