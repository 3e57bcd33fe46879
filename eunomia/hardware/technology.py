"""Energy of a type from its sizes and its process: one basis for all, so that chips can be compared.

On-chip figures: Horowitz, ISSCC 2014, at 45 nm and 0.9 V: 8-bit product 0.2 pJ, 32-bit product 3.1, 32-bit sum 0.1;
64 bits out of an SRAM of 8 KB 10 pJ, of 32 KB 20, of 1 MB 100. Scaling: Stillmaker and Baas, Integration 58, 2017,
energy per operation = a V^2 + b V + c with the high-performance coefficients of each node. DRAM: Horowitz (DDR3),
Jouppi et al., ISCA 2021 (DDR4, HBM2, GDDR6). Clock and leakage: watts per mm2 and GHz, ``CLOCK_W``.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.errors import PlatformError

# node in nm: (a, b, c, usual supply in V); area of a gate against 65 nm
ENERGY = {
    65: (3.755, -4.398, 1.975, 1.0),
    45: (1.018, -0.3107, 0.1539, 0.9),
    32: (0.8367, -0.4341, 0.1701, 0.9),
    20: (0.373, -0.1582, 0.04104, 0.9),
    16: (0.2958, -0.1241, 0.03024, 0.8),
    14: (0.2363, -0.09675, 0.02239, 0.8),
    10: (0.2068, -0.09311, 0.02375, 0.75),
    7: (0.1776, -0.09097, 0.02447, 0.75),
}
AREA = {65: 1.0, 45: 0.66, 32: 0.31, 20: 0.14, 16: 0.13, 14: 0.12, 10: 0.068, 7: 0.039}
DRAM_PJ_BYTE = {"ddr3": 200.0, "ddr4": 162.5, "hbm2": 44.0, "gddr6": 52.0}
CLOCK_W = 0.077  # at 65 nm and 1 V, per mm2 and GHz: fitted on the AlexNet rows of the Eyeriss chip


def energy_factor(node_nm: float, supply_v: float = 0.0) -> float:
    """Energy of an operation against 45 nm at 0.9 V; ``supply_v`` = 0: the usual one of the node."""
    return _relative(node_nm, supply_v) / _relative(45.0, 0.9)


def clock_w_mm2(node_nm: float, clock_hz: float, supply_v: float = 0.0) -> float:
    """Clock tree and leakage per mm2: more gates per area, each with less energy."""
    gates = 1.0 / float(np.exp(_interpolated(node_nm, {n: math.log(a) for n, a in AREA.items()})))
    energy = _relative(node_nm, supply_v) / _relative(65.0, 1.0)
    return CLOCK_W * clock_hz * 1e-9 * gates * energy


def product_pj(word_bytes: float) -> float:
    """A product and its sum at 45 nm: products grow with the square of the width."""
    bits = 8.0 * word_bytes
    return 0.2 * bits * bits / 64.0 + 0.1 * min(1.0, 2.0 * bits / 32.0 + 0.25)


def sram_pj_byte(size_bytes: float) -> float:
    """A byte in or out of an SRAM at 45 nm: a power law through 8 KB and 1 MB."""
    return 1.25 * math.exp(math.log(max(size_bytes, 64.0) / 8192.0) * math.log(10.0) / math.log(128.0))


def dram_pj_byte(name: str) -> float:
    """A byte of DRAM of that kind; raises PlatformError."""
    if name not in DRAM_PJ_BYTE:
        raise PlatformError(f"unknown kind of DRAM '{name}'; choose one of: {', '.join(DRAM_PJ_BYTE)}")
    return DRAM_PJ_BYTE[name]


def _relative(node_nm: float, supply_v: float) -> float:
    """Energy per operation in the units of the source, between nodes on the logarithm of both."""
    if not min(ENERGY) <= node_nm <= max(ENERGY):
        raise PlatformError(
            f"node_nm is {node_nm}; the scaling table goes from {min(ENERGY)} to {max(ENERGY)}"
        )
    logs = {
        n: math.log(a * (supply_v or v) ** 2 + b * (supply_v or v) + c) for n, (a, b, c, v) in ENERGY.items()
    }
    return math.exp(_interpolated(node_nm, logs))


def _interpolated(node_nm: float, values: dict[int, float]) -> float:
    nodes = sorted(values)
    return float(np.interp(math.log(node_nm), np.log(nodes), [values[node] for node in nodes]))
