"""What a placement policy sees of the world: features of every pair (waiting task, device), and of the whole."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.environments.edge_cloud.world import World

PAIR = (
    "tenant_likes",
    "device_likes",
    "run",  # run time / mean run time, at most 4
    "queue",  # seconds until it would start / mean run time, at most 8
    "in_time",  # 1 if it would meet its deadline
    "slack",  # deadline - end, over mean run time, clipped to [-2, 4]
    "memory",  # share of the device's
    "window",  # seconds left in the window after it / mean run time, at most 8
    "weight",  # over the mean weight
    "gain",  # reward of the placement times the number of tasks
)
GLOBAL = (
    "waiting",  # waiting tasks / devices, at most 4
    "backlog",  # mean queue of present devices / mean run time, at most 8
    "present",  # share of devices that are there
)
LIKED = tuple(PAIR.index(name) for name in ("tenant_likes", "device_likes", "gain"))


def observe(world: World, hidden: bool = False) -> tuple[Floats, Floats]:
    """(waiting, D, PAIR) and (GLOBAL,) features; ``hidden``: without anything that tells likes."""
    c, rows, unit_s = world.case, np.array(world.waiting, np.int64), world.case.mean_run_s
    start_s = np.maximum(world.now_s, world.free_s)
    run_s, tenant = c.run_s[rows], c.tenant[rows]
    end_s = start_s[None, :] + run_s
    shape, due = run_s.shape, c.deadline_s[rows, None]
    columns = (
        c.tenant_likes[tenant], c.device_likes[:, tenant].T, np.minimum(run_s / unit_s, 4.0),
        np.minimum(np.broadcast_to(start_s - world.now_s, shape) / unit_s, 8.0), end_s <= due,
        np.clip((due - end_s) / unit_s, -2.0, 4.0), c.memory_gb[rows, None] / c.device_gb[None, :],
        np.clip((c.leave_s[None, :] - end_s) / unit_s, -1.0, 8.0),
        np.broadcast_to((c.weight[rows] / c.weight.mean())[:, None], shape), world.gains() * len(c.arrival_s),
    )  # fmt: skip
    pairs = np.stack([np.asarray(column, np.float64) for column in columns], axis=2)
    if hidden:
        pairs[:, :, LIKED] = 0.0
    here = (c.join_s <= world.now_s) & (world.now_s < c.leave_s)
    queue_s = np.maximum(world.free_s - world.now_s, 0.0)[here]
    backlog = min(float(queue_s.mean()) / unit_s, 8.0) if here.any() else 0.0
    return pairs, np.array([min(len(rows) / len(here), 4.0), backlog, float(here.mean())])
