"""Blocks of layers, after Veltair: a request keeps its accelerator for a few layers before others may take it.

Source: Liu et al., "VELTAIR: Towards High-Performance Multi-tenant Deep Learning Services via Adaptive
Compilation and Scheduling", ASPLOS 2022, arXiv 2201.06212.

A network is cut into blocks of ``layers`` layers, counted by layers done. Inside a block the next layer
starts on the accelerator of the one before it, ahead of everything else. At the start of a block: earliest
deadline first, hopeless requests last, by earliest finish (``eft``) of the block's first layer.

Does badly: an urgent request waits for a block instead of a layer, and the later layers of a block run where
its first one liked it. Worth it where switching costs time (``engine.switch_s``) or decisions do.

Deviations: (1) no versions compiled for levels of interference: blocks alone carry over; (2) blocks have a
fixed number of layers, the published ones grow and shrink with the load; (3) on networks with branches a
layer whose predecessor's accelerator was taken by a sibling begins a new block.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Ready, Rows
from eunomia.core.arrays import Floats
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.greedy import place_over_view
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.setup import EFT
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, with_gate
from eunomia.inference.policies.compiled import Compiled


@jitted
def _kept(i: int, ready: Rows[Ready], latency_s: Floats, accelerators: Rows[Accelerator], layers: int) -> int:
    """The idle accelerator that the request keeps for this layer; -1 = a new block begins."""
    s = ready[i].accelerator
    if s < 0 or ready[i].layers_done % layers == 0:
        return -1
    mine = accelerators[s].request < 0 and accelerators[s].last_request == ready[i].request
    return s if mine and latency_s[i, s] < np.inf else -1


def _by_blocks(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system):
        return 0
    layers = int(system.parameters[0])
    best, best_rank, best_s = -1, 0, -1
    for i in range(len(ready)):
        kept = _kept(i, ready, latency_s, accelerators, layers)
        rank = 0 if kept >= 0 else 1 + ready[i].late
        key = ready[i].deadline_s
        if best >= 0 and not precedes(rank, key, ready[i], best_rank, ready[best].deadline_s, ready[best]):
            continue
        s = kept if kept >= 0 else place_over_view(i, latency_s, demand, accelerators, system, EFT)
        if s >= 0:
            best, best_rank, best_s = i, rank, s
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def veltair(layers: int = 4, gate: float = math.inf) -> Compiled:
    """Blocks of layers on one accelerator, blocks by earliest deadline (after ASPLOS 2022)."""
    if layers < 1:
        raise PolicyError(f"a block has {layers} layers; it needs at least 1")
    return Compiled(_by_blocks, gated_name("veltair", gate), with_gate(gate, float(layers)))
