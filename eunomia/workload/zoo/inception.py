"""Inception version 3 (Szegedy et al., CVPR 2016)."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Size, Tensor
from eunomia.workload.model import DnnModel

Step = tuple[int, Size] | tuple[int, Size, int]  # channels, kernel, and stride where it is not 1


def inception_v3() -> DnnModel:
    """Inception-v3 for 299 x 299 images, without the classifier that only training uses."""
    net = NetworkBuilder("inception-v3", "Inception-v3, CVPR 2016, as in torchvision")
    x = net.conv("stem1", Tensor(3, 299, 299), 32, 3, 2, 0, norm=True)
    x = net.conv("stem2", x, 32, 3, 1, 0, norm=True)
    x = net.conv("stem3", x, 64, 3, norm=True)
    x = net.pool("stem.pool1", x, 3, 2)
    x = net.conv("stem4", x, 80, 1, norm=True)
    x = net.conv("stem5", x, 192, 3, 1, 0, norm=True)
    x = net.pool("stem.pool2", x, 3, 2)
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        x = _module_35(net, name, x, pooled)
    x = _reduction_17(net, "6a", x)
    for name, narrow in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        x = _module_17(net, name, x, narrow)
    x = _reduction_8(net, "7a", x)
    for name in ("7b", "7c"):
        x = _module_8(net, name, x)
    x = net.global_pool("pool", x)
    net.dense("fc", x, 1000)
    return net.build()


def _branch(net: NetworkBuilder, name: str, x: Tensor, *steps: Step) -> Tensor:
    """A chain of convolutions; those with a stride are not padded."""
    for index, step in enumerate(steps, start=1):
        stride = step[2] if len(step) == 3 else 1
        padding = 0 if stride > 1 else None
        x = net.conv(f"{name}.{index}", x, step[0], step[1], stride, padding, norm=True)
    return x


def _pooled(net: NetworkBuilder, name: str, x: Tensor, channels: int) -> Tensor:
    return _branch(net, name, net.pool(f"{name}.pool", x, 3, 1, 1), (channels, 1))


def _module_35(net: NetworkBuilder, name: str, x: Tensor, pooled: int) -> Tensor:
    return net.concat(
        _branch(net, f"{name}.1x1", x, (64, 1)),
        _branch(net, f"{name}.5x5", x, (48, 1), (64, 5)),
        _branch(net, f"{name}.3x3x2", x, (64, 1), (96, 3), (96, 3)),
        _pooled(net, f"{name}.pooled", x, pooled),
    )


def _reduction_17(net: NetworkBuilder, name: str, x: Tensor) -> Tensor:
    return net.concat(
        _branch(net, f"{name}.3x3", x, (384, 3, 2)),
        _branch(net, f"{name}.3x3x2", x, (64, 1), (96, 3), (96, 3, 2)),
        net.pool(f"{name}.pool", x, 3, 2),
    )


def _module_17(net: NetworkBuilder, name: str, x: Tensor, narrow: int) -> Tensor:
    wide, tall = (1, 7), (7, 1)
    return net.concat(
        _branch(net, f"{name}.1x1", x, (192, 1)),
        _branch(net, f"{name}.7x7", x, (narrow, 1), (narrow, wide), (192, tall)),
        _branch(
            net, f"{name}.7x7x2", x, (narrow, 1), (narrow, tall), (narrow, wide), (narrow, tall), (192, wide)
        ),
        _pooled(net, f"{name}.pooled", x, 192),
    )


def _reduction_8(net: NetworkBuilder, name: str, x: Tensor) -> Tensor:
    return net.concat(
        _branch(net, f"{name}.3x3", x, (192, 1), (320, 3, 2)),
        _branch(net, f"{name}.7x7", x, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2)),
        net.pool(f"{name}.pool", x, 3, 2),
    )


def _module_8(net: NetworkBuilder, name: str, x: Tensor) -> Tensor:
    split = _branch(net, f"{name}.3x3", x, (384, 1))
    double = _branch(net, f"{name}.3x3x2", x, (448, 1), (384, 3))
    return net.concat(
        _branch(net, f"{name}.1x1", x, (320, 1)),
        _branch(net, f"{name}.3x3.wide", split, (384, (1, 3))),
        _branch(net, f"{name}.3x3.tall", split, (384, (3, 1))),
        _branch(net, f"{name}.3x3x2.wide", double, (384, (1, 3))),
        _branch(net, f"{name}.3x3x2.tall", double, (384, (3, 1))),
        _pooled(net, f"{name}.pooled", x, 192),
    )
