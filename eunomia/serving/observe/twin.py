"""Recorded traffic and measured costs of a server, as one document: what a digital twin is made of."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import numpy as np
import orjson

from eunomia.core.data import Json
from eunomia.serving.devices.looking import LEAST_WAIT_S
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.overheads import DELAYS, FEW_MOVES, MANY_DRAWS, means_s
from eunomia.serving.models.entry import named
from eunomia.serving.service import Service

FORMAT = 8
OPTIONS = ("ahead_s", "starve_s", "calm_s")


async def exported(service: Service) -> AsyncIterator[bytes]:
    """A recording as JSON, piece by piece: at once a full one takes 0.7 s, in which nobody would be served."""
    recording = service.books.recording
    slices, sizes = recording.slices(), [times_of(service.pool.costs, *size) for size in recording.sizes]
    yield orjson.dumps(settings(service) | {"sizes": sizes})[:-1] + b',"requests":['
    between = b""
    for rows in slices:
        if rows:
            yield between + orjson.dumps(rows)[1:-1]
            between = b","
        await asyncio.sleep(0)
    yield b"]}"


def settings(service: Service) -> Json:
    """Everything that ``eunomia twin`` needs beside the traffic: devices, block times, promises, settings.

    ``networks`` holds what an input of the trial's shape takes. The table ``sizes`` beside it has a row for each shape
    that came, per row of input; requests name theirs by its number.

    By device, ``turn_s``: what it loses with every change of request; ``move_s``: what another one loses on top that
    goes on with a request of this one (dispatch/overheads.py); ``spread``: of its block times. ``turns``, ``moves`` and
    ``factors`` (block times over means): numbers of equal chance. ``look_s``: no boundary of a run is looked at sooner
    after another, but for an arrival. So are ``delays``, by kind (dispatch/overheads.py) and device, and ``runs``: what
    runs took over the means of their blocks, by network and device. ``options``: of the dispatcher; null = endless.
    ``whole``: networks that can run in one piece.
    What reading a request and sending its answer take is not in a recording.
    """
    dispatcher, costs = service.pool.dispatcher, service.pool.costs
    options, networks = (
        dispatcher.options,
        {named(key)[0]: network for key, network in costs.networks.items()},
    )
    turn, move = ([getattr(each, kind) for each in dispatcher.overheads] for kind in ("turn", "move"))
    return {
        "format": FORMAT,
        "policy": service.policy_name,
        "lease_s": dispatcher.options.lease_s,
        "late": dispatcher.options.late,
        "max_batch": dispatcher.options.max_batch,
        "devices": [device.spec.name for device in service.pool.devices],
        "networks": {
            name: times_of(costs, network.first_row, network.blocks) for name, network in networks.items()
        },
        "pairs": [
            {
                "tenant": a.tenant,
                "model": a.model,
                "weight": a.weight,
                "priority": a.priority,
                "slo": None
                if a.slo is None
                else {
                    "target": a.slo.target,
                    "kind": a.slo.kind,
                    "percentile": a.slo.percentile,
                    "window_s": a.slo.window_s,
                    "window_requests": a.slo.window_requests,
                },
            }
            for a in dispatcher.agreements
        ],
        "turn_s": means_s(turn),
        "move_s": means_s(move, FEW_MOVES),
        "turns": [each.latest.draws() for each in turn],
        "moves": [each.latest.draws() for each in move],
        "factors": [each.draws() for each in costs.scatter.factors],
        "look_s": LEAST_WAIT_S,
        "spread": [float(s) for s in costs.scatter.spread],
        "delays": {
            kind: [each.delays[kind].draws(MANY_DRAWS) for each in dispatcher.overheads] for kind in DELAYS
        },
        "runs": {
            name: [each.draws(MANY_DRAWS) for each in costs.scatter.runs.get(network.index, ())]
            for name, network in networks.items()
        },
        "options": {
            name: value if math.isfinite(value := getattr(options, name)) else None for name in OPTIONS
        },
        "whole": [name for name, network in networks.items() if network.whole],
    }


def times_of(costs: CostBook, first_row: int, blocks: int, parts: int = 1) -> list[list[float]]:
    """Mean time of each block on each device; what is expected where none has run it, -1 where none ever will.

    In several ``parts``, of some of the rows each, blocks follow each other so often, each for its part of the time.
    What a device was expected to take stays while it is away: it will be back, and the recording can be read.
    """
    rows = slice(first_row, first_row + blocks)
    mean_s = np.where(np.isfinite(costs.mean_s[rows]), costs.mean_s[rows], costs.known_s[rows])
    return [[float(t) for t in row] for row in np.where(np.isfinite(mean_s), mean_s / parts, -1.0)] * parts
