"""Keyword spotting: res8 (Tang and Lin, ICASSP 2018, arXiv:1710.10361; code: Honk)."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel


def kws_res8() -> DnnModel:
    """res8 with 45 feature maps: one second of audio as 101 frames of 40 coefficients, 12 keywords.

    Its batch normalizations have no learned scale or shift and are applied where convolutions and
    sums write their result.
    """
    net = NetworkBuilder("kws-res8", "res8, arXiv:1710.10361, shapes of the authors' code (Honk)")
    x = net.conv("conv0", Tensor(1, 101, 40), 45, 3, bias=False)
    x = net.pool("pool", x, (4, 3), (4, 3))
    for block in range(1, 4):
        y = net.conv(f"block{block}.conv1", x, 45, 3, bias=False)
        y = net.conv(f"block{block}.conv2", y, 45, 3, bias=False)
        x = net.add(f"block{block}.add", y, x)
    x = net.global_pool("mean", x)
    x = net.dense("output", x, 12)
    net.softmax("softmax", x)
    return net.build()
