"""ResNet (He et al., CVPR 2016)."""

from __future__ import annotations

from collections.abc import Callable

from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel

_WIDTHS = (64, 128, 256, 512)

Block = Callable[[NetworkBuilder, str, Tensor, int, int], Tensor]


def resnet18() -> DnnModel:
    """ResNet-18 for 224 x 224 images."""
    return _classifier("resnet18", basic_block, (2, 2, 2, 2))


def resnet34() -> DnnModel:
    """ResNet-34 for 224 x 224 images."""
    return _classifier("resnet34", basic_block, (3, 4, 6, 3))


def resnet50() -> DnnModel:
    """ResNet-50 for 224 x 224 images, version 1.5: the 3 x 3 convolution of a block has the stride."""
    return _classifier("resnet50", bottleneck_block, (3, 4, 6, 3))


def stem(net: NetworkBuilder, x: Tensor) -> Tensor:
    """The first convolution and pooling."""
    x = net.conv("conv1", x, 64, 7, 2, norm=True)
    return net.pool("pool1", x, 3, 2, 1)


def stage(net: NetworkBuilder, number: int, x: Tensor, block: Block, repeats: int, stride: int) -> Tensor:
    """One group of equal blocks, ``number`` counted from 1; the first block has the stride."""
    for repeat in range(repeats):
        name = f"layer{number}.{repeat}"
        x = block(net, name, x, _WIDTHS[number - 1], stride if repeat == 0 else 1)
    return x


def basic_block(net: NetworkBuilder, name: str, x: Tensor, width: int, stride: int) -> Tensor:
    """Two 3 x 3 convolutions beside a shortcut."""
    y = net.conv(f"{name}.conv1", x, width, 3, stride, norm=True)
    y = net.conv(f"{name}.conv2", y, width, 3, norm=True)
    return net.add(f"{name}.add", y, _shortcut(net, name, x, width, stride))


def bottleneck_block(net: NetworkBuilder, name: str, x: Tensor, width: int, stride: int) -> Tensor:
    """1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut; four times ``width`` channels leave."""
    y = net.conv(f"{name}.conv1", x, width, 1, norm=True)
    y = net.conv(f"{name}.conv2", y, width, 3, stride, norm=True)
    y = net.conv(f"{name}.conv3", y, 4 * width, 1, norm=True)
    return net.add(f"{name}.add", y, _shortcut(net, name, x, 4 * width, stride))


def _shortcut(net: NetworkBuilder, name: str, x: Tensor, channels: int, stride: int) -> Tensor:
    if stride == 1 and x.channels == channels:
        return x
    return net.conv(f"{name}.shortcut", x, channels, 1, stride, norm=True)


def _classifier(name: str, block: Block, repeats: tuple[int, int, int, int]) -> DnnModel:
    net = NetworkBuilder(name, "ResNet, CVPR 2016, as in torchvision")
    x = stem(net, Tensor(3, 224, 224))
    for number, count in enumerate(repeats, start=1):
        x = stage(net, number, x, block, count, 1 if number == 1 else 2)
    x = net.global_pool("pool", x)
    net.dense("fc", x, 1000)
    return net.build()
