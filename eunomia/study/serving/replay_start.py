"""The dispatcher of a replay as it stands when that begins: set like the server's, with what that had learned."""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.guard import Guarded
from eunomia.inference.by_type import Draw
from eunomia.inference.policies import load_policy
from eunomia.serving.dispatch.calm import Calm
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.options import Executor
from eunomia.serving.dispatch.overheads import Overheads
from eunomia.study.inference.policy import PolicyLike, resolve_policy
from eunomia.study.serving.twin import Twin
from eunomia.study.serving.twin_server import TwinServer

FALLBACK = "edf+f"


def dispatcher_of(
    twin: Twin, policy: PolicyLike, clock: ManualClock, executor: Executor
) -> tuple[Dispatcher, list[Network], Guarded]:
    """And a network for each model of the twin's table, and its policy, which may take as long as it likes."""
    assert twin.server is not None, "an older recording"
    costs = CostBook(len(twin.table.types))
    networks = [_loaded(costs, twin.server, model) for model in range(len(twin.server.blocks))]
    served, fallback = load_policy(resolve_policy(policy)), load_policy(FALLBACK)
    guard = Guarded(served, fallback, limit_s=math.inf, clock=clock.now_s)
    guard.reset(0)
    dispatcher = Dispatcher(clock, executor, costs, len(twin.table.types), guard, twin.server.options)
    for device, kind in enumerate(twin.table.types):
        _measured(dispatcher.overheads[device], twin.turn[kind], twin.move[kind])
        dispatcher.lanes[device].free_s = -math.inf  # it was idle before the first request
    for agreement in twin.requests.agreements:
        dispatcher.add_pair(agreement)
    _seen_before(dispatcher.calm, twin, twin.server)
    return dispatcher, networks, guard


def _loaded(costs: CostBook, server: TwinServer, model: int) -> Network:
    """Each size that requests had is a network of its own; its times are known from the start."""
    blocks_s, name = server.blocks[model], server.network[model]
    network = costs.add(f"{name} {model}", len(blocks_s), whole=name in server.whole)
    for device in range(blocks_s.shape[1]):
        if np.isfinite(blocks_s[:, device]).all():
            costs.measured(network, device, blocks_s[:, device].tolist())
    return network


def _measured(overheads: Overheads, turn: Draw, move: Draw) -> None:
    """What a device loses by turns and moves."""
    for mean, draw in ((overheads.turn, turn), (overheads.move, move)):
        for value_s in draw if isinstance(draw, tuple) else [draw] * (draw > 0.0):
            mean.learn(value_s)


def _seen_before(calm: Calm, twin: Twin, server: TwinServer) -> None:
    """Requests like these came before, too, and not in peace: none of the first runs goes without boundaries."""
    calm.disturbed(0.0)
    own_s = np.array([blocks_s.min(axis=1).sum() for blocks_s in server.blocks])[twin.model]
    due_s = twin.requests.relative_deadline_s + twin.reach_s
    for most in (int(due_s.argmin()), int((due_s - own_s).argmin())):
        calm.arrived(float(due_s[most]), float(own_s[most]), 0.0)
