"""Vision Transformer (Dosovitskiy et al., ICLR 2021)."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel
from eunomia.workload.zoo.transformer import pre_norm_layer


def vit_b16() -> DnnModel:
    """ViT-B/16: 224 x 224 images in 196 patches and a class token, 12 layers of 768, 12 heads."""
    net = NetworkBuilder("vit-b16", "ViT-B/16, ICLR 2021, as in torchvision")
    width, tokens = 768, 14 * 14 + 1
    x = net.conv("patches", Tensor(3, 224, 224), width, 16, 16, 0)
    x = Tensor(width, tokens, 1, x.producers)
    x = net.scale("positions", x, 1, weights=width + tokens * width)  # class token and learned positions
    for index in range(12):
        x = pre_norm_layer(net, f"layer{index}", x, 12, 4 * width)
    x = net.layer_norm("norm", x)
    net.dense("head", Tensor(width, 1, 1, x.producers), 1000)
    return net.build()
