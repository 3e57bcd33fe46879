"""MobileNetV2 (Sandler et al., CVPR 2018)."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel

# expansion, channels, repeats, stride of the first: the paper's table 2
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2() -> DnnModel:
    """MobileNetV2, width 1.0, for 224 x 224 images."""
    net = NetworkBuilder("mobilenet-v2", "MobileNetV2 1.0, CVPR 2018, as in torchvision")
    x = net.conv("conv0", Tensor(3, 224, 224), 32, 3, 2, norm=True)
    block = 0
    for expansion, channels, repeats, stride in _STAGES:
        for repeat in range(repeats):
            block += 1
            x = _inverted_residual(net, f"block{block}", x, expansion, channels, stride if repeat == 0 else 1)
    x = net.conv("conv18", x, 1280, 1, norm=True)
    x = net.global_pool("pool", x)
    net.dense("fc", x, 1000)
    return net.build()


def _inverted_residual(
    net: NetworkBuilder, name: str, x: Tensor, expansion: int, channels: int, stride: int
) -> Tensor:
    hidden = x.channels * expansion
    y = net.conv(f"{name}.expand", x, hidden, 1, norm=True) if expansion > 1 else x
    y = net.conv(f"{name}.depthwise", y, hidden, 3, stride, groups=hidden, norm=True)
    y = net.conv(f"{name}.project", y, channels, 1, norm=True)
    return net.add(f"{name}.add", y, x) if stride == 1 and channels == x.channels else y
