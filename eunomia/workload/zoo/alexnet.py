"""AlexNet as first published (Krizhevsky et al., NIPS 2012)."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel


def alexnet() -> DnnModel:
    """The original two-tower AlexNet: 227 x 227 images, two groups in the 2nd, 4th and 5th convolution.

    These are the layers that the Eyeriss chip was measured on. Libraries often call a narrower
    network without groups AlexNet (torchvision: 61,100,840 parameters).
    """
    net = NetworkBuilder("alexnet", "AlexNet, NIPS 2012, two towers as groups, as in Caffe's bvlc_alexnet")
    x = net.conv("conv1", Tensor(3, 227, 227), 96, 11, 4, 0)
    x = net.local_response_norm("norm1", x, 5)
    x = net.pool("pool1", x, 3, 2)
    x = net.conv("conv2", x, 256, 5, groups=2)
    x = net.local_response_norm("norm2", x, 5)
    x = net.pool("pool2", x, 3, 2)
    x = net.conv("conv3", x, 384, 3)
    x = net.conv("conv4", x, 384, 3, groups=2)
    x = net.conv("conv5", x, 256, 3, groups=2)
    x = net.flatten(net.pool("pool5", x, 3, 2))
    for name, channels in (("fc6", 4096), ("fc7", 4096), ("fc8", 1000)):
        x = net.dense(name, x, channels)
    net.softmax("softmax", x)
    return net.build()
