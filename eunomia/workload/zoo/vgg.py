"""VGG (Simonyan and Zisserman, ICLR 2015)."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels, convolutions before each pooling


def vgg16() -> DnnModel:
    """VGG16 (configuration D) for 224 x 224 images."""
    net = NetworkBuilder("vgg16", "VGG configuration D, ICLR 2015, as in torchvision")
    x = Tensor(3, 224, 224)
    for stage, (channels, repeats) in enumerate(_STAGES, start=1):
        for repeat in range(1, repeats + 1):
            x = net.conv(f"conv{stage}_{repeat}", x, channels, 3)
        x = net.pool(f"pool{stage}", x, 2, 2)
    x = net.flatten(x)
    for name, width in (("fc6", 4096), ("fc7", 4096), ("fc8", 1000)):
        x = net.dense(name, x, width)
    net.softmax("softmax", x)
    return net.build()
