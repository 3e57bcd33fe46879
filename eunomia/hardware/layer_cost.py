"""What one layer costs on one accelerator type, term by term."""

from __future__ import annotations

from dataclasses import dataclass, field

from eunomia.hardware.accelerator import AcceleratorType

DRAM_PRICE = 0.01  # share of the least latency that a mapping may cost more, for less DRAM traffic


@dataclass(frozen=True)
class Traffic:
    """Work and bytes of one layer, before energy: what a mapping search returns.

    Cycles are of the accelerator's clock. ``pe_bytes`` moves inside elements, ``noc_bytes`` between
    them and on the buses, ``buffer_bytes`` in and out of the global buffer.
    """

    compute_cycles: float
    buffer_cycles: float
    dram_input_bytes: float
    dram_weight_bytes: float
    dram_output_bytes: float
    buffer_bytes: float
    noc_bytes: float
    pe_bytes: float
    macs: int
    vector_ops: int = 0
    first_bytes: float = 0.0  # that cross the link before the array starts, or after it ends
    active_pes: int = 0
    mapping: dict[str, int] = field(default_factory=dict)  # parameters found by the search

    @property
    def dram_bytes(self) -> float:
        """Bytes over the DRAM link."""
        return self.dram_input_bytes + self.dram_weight_bytes + self.dram_output_bytes


@dataclass(frozen=True)
class LayerCost:
    """Cost of one layer on one type. Latency is the roof over the three terms."""

    compute_s: float
    buffer_s: float
    dram_bytes: float
    link_bytes_s: float
    energy_split_j: dict[str, float]  # mac, pe, noc, buffer, dram, vector, static
    traffic: Traffic

    @property
    def energy_j(self) -> float:
        """All levels together."""
        return sum(self.energy_split_j.values())

    @property
    def latency_s(self) -> float:
        """Isolated latency: max(compute, buffer, DRAM at the link's own bandwidth)."""
        return self.latency_at(self.link_bytes_s)

    def latency_at(self, share_bytes_s: float) -> float:
        """Latency when DRAM gives ``share_bytes_s``, at most the link's own."""
        return max(self.compute_s, self.buffer_s, self.dram_bytes / min(share_bytes_s, self.link_bytes_s))


def price(traffic: Traffic, kind: AcceleratorType) -> LayerCost:
    """Cycles to seconds, bytes to joules: sum over levels of bytes x pJ/byte + MACs x pJ/MAC + static W x s."""
    pj = kind.energy
    alone_s = traffic.first_bytes / kind.link_bytes_s
    compute_s = traffic.compute_cycles / kind.clock_hz + alone_s
    buffer_s = traffic.buffer_cycles / kind.clock_hz + alone_s
    latency_s = max(compute_s, buffer_s, traffic.dram_bytes / kind.link_bytes_s)
    split = {
        "mac": traffic.macs * pj.mac_pj * 1e-12,
        "pe": traffic.pe_bytes * pj.pe_pj_byte * 1e-12,
        "noc": traffic.noc_bytes * pj.noc_pj_byte * 1e-12,
        "buffer": traffic.buffer_bytes * pj.buffer_pj_byte * 1e-12,
        "dram": traffic.dram_bytes * pj.dram_pj_byte * 1e-12,
        "vector": traffic.vector_ops * pj.vector_op_pj * 1e-12,
        "static": latency_s * pj.static_w,
    }
    return LayerCost(compute_s, buffer_s, traffic.dram_bytes, kind.link_bytes_s, split, traffic)
