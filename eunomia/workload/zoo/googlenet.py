"""GoogLeNet, Inception version 1 (Szegedy et al., CVPR 2015)."""

from __future__ import annotations

from eunomia.core.errors import ConfigError
from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel

# 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection: the paper's table 1
_MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
_POOL_AFTER = {"3b": 3, "4e": 2}  # module: kernel of the pooling that follows it in torchvision


def googlenet(variant: str = "paper") -> DnnModel:
    """GoogLeNet for 224 x 224 images, without the two classifiers that only training uses.

    ``paper``: 5 x 5 branches, biases, local response normalization. ``torchvision``: that library's
    network, with batch normalization and 3 x 3 kernels in the 5 x 5 branches.
    """
    if variant not in ("paper", "torchvision"):
        raise ConfigError(f"googlenet has no variant '{variant}'; choose 'paper' or 'torchvision'")
    paper = variant == "paper"
    name = "googlenet" if paper else f"googlenet-{variant}"
    net = NetworkBuilder(name, f"GoogLeNet, CVPR 2015, variant '{variant}'")
    x = net.conv("conv1", Tensor(3, 224, 224), 64, 7, 2, norm=not paper)
    x = net.pool("pool1", x, 3, 2, ceil=True)
    if paper:
        x = net.local_response_norm("norm1", x, 5)
    x = net.conv("conv2.reduce", x, 64, 1, norm=not paper)
    x = net.conv("conv2", x, 192, 3, norm=not paper)
    if paper:
        x = net.local_response_norm("norm2", x, 5)
    x = net.pool("pool2", x, 3, 2, ceil=True)
    for module, widths in _MODULES.items():
        x = _inception(net, module, x, widths, paper)
        if module in _POOL_AFTER:
            x = net.pool(f"pool.{module}", x, 3 if paper else _POOL_AFTER[module], 2, ceil=True)
    x = net.global_pool("pool5", x)
    x = net.dense("fc", x, 1000)
    net.softmax("softmax", x)
    return net.build()


def _inception(net: NetworkBuilder, name: str, x: Tensor, widths: tuple[int, ...], paper: bool) -> Tensor:
    ones, reduce3, threes, reduce5, fives, projection = widths
    a = net.conv(f"{name}.1x1", x, ones, 1, norm=not paper)
    b = net.conv(f"{name}.3x3.reduce", x, reduce3, 1, norm=not paper)
    b = net.conv(f"{name}.3x3", b, threes, 3, norm=not paper)
    c = net.conv(f"{name}.5x5.reduce", x, reduce5, 1, norm=not paper)
    c = net.conv(f"{name}.5x5", c, fives, 5 if paper else 3, norm=not paper)
    d = net.pool(f"{name}.pool", x, 3, 1, 1)
    d = net.conv(f"{name}.pool.project", d, projection, 1, norm=not paper)
    return net.concat(a, b, c, d)
