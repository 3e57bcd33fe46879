"""SqueezeNet (Iandola et al., arXiv:1602.07360)."""

from __future__ import annotations

from eunomia.core.errors import ConfigError
from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel

_FIRE = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
_FIRST = {"1.0": (96, 7), "1.1": (64, 3)}  # version: filters and kernel of the first convolution
_POOL_BEFORE = {"1.0": (0, 3, 7), "1.1": (0, 2, 4)}  # version: fire modules that follow a pooling


def squeezenet(version: str = "1.1") -> DnnModel:
    """SqueezeNet for 224 x 224 images; 1.1 is the authors' cheaper revision, 1.0 the paper's."""
    if version not in _FIRST:
        raise ConfigError(f"squeezenet has no version '{version}'; choose one of: {', '.join(_FIRST)}")
    name = "squeezenet" if version == "1.1" else f"squeezenet-v{version}"
    net = NetworkBuilder(name, f"SqueezeNet {version}, arXiv:1602.07360, as in torchvision")
    filters, kernel = _FIRST[version]
    x = net.conv("conv1", Tensor(3, 224, 224), filters, kernel, 2, 0)
    for index, (squeeze, expand) in enumerate(_FIRE):
        if index in _POOL_BEFORE[version]:
            x = net.pool(f"pool{index + 1}", x, 3, 2, ceil=True)
        x = _fire(net, f"fire{index + 2}", x, squeeze, expand)
    x = net.conv("conv10", x, 1000, 1)
    net.global_pool("pool10", x)
    return net.build()


def _fire(net: NetworkBuilder, name: str, x: Tensor, squeeze: int, expand: int) -> Tensor:
    x = net.conv(f"{name}.squeeze", x, squeeze, 1)
    narrow = net.conv(f"{name}.expand1x1", x, expand, 1)
    wide = net.conv(f"{name}.expand3x3", x, expand, 3)
    return net.concat(narrow, wide)
