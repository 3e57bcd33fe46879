"""U-Net (Ronneberger et al., MICCAI 2015)."""

from __future__ import annotations

from eunomia.core.errors import ConfigError
from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel


def unet(size: int = 512) -> DnnModel:
    """U-Net for ``size`` x ``size`` colour images and one class.

    The form in common use: padded convolutions, so that the result has the size of the input, with
    batch normalization. (The paper's own takes 572 x 572 without padding and gives 388 x 388.)
    """
    if size < 16 or size % 16:
        raise ConfigError(f"unet takes images whose side is a multiple of 16; size = {size}")
    net = NetworkBuilder("unet", f"U-Net, MICCAI 2015, padded and normalized, {size} x {size}")
    x = Tensor(3, size, size)
    skipped = []
    for level, channels in enumerate((64, 128, 256, 512)):
        x = _twice(net, f"down{level}", x, channels)
        skipped.append(x)
        x = net.pool(f"down{level}.pool", x, 2, 2)
    x = _twice(net, "bottom", x, 1024)
    for level, skip in reversed(list(enumerate(skipped))):
        x = net.up_conv(f"up{level}.transposed", x, skip.channels, 2)
        x = _twice(net, f"up{level}", net.concat(skip, x), skip.channels)
    net.conv("classes", x, 1, 1)
    return net.build()


def _twice(net: NetworkBuilder, name: str, x: Tensor, channels: int) -> Tensor:
    x = net.conv(f"{name}.conv1", x, channels, 3, norm=True)
    return net.conv(f"{name}.conv2", x, channels, 3, norm=True)
