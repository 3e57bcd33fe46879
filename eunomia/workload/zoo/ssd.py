"""SSD with a ResNet-34 backbone: the large object detector of MLPerf inference (v0.5 to v1.1)."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel
from eunomia.workload.zoo.resnet import basic_block, stage, stem

_CLASSES = 81  # background included
_BOXES = (4, 6, 6, 6, 4, 4)  # default boxes per position of each feature map
# channels between and after, stride, padding of each pair of further convolutions
_EXTRA = ((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 2, 0), (128, 256, 1, 0))


def ssd_resnet34() -> DnnModel:
    """SSD-ResNet-34 for 1200 x 1200 images, 15,130 default boxes.

    The third stage of the backbone keeps stride 1, the fourth is cut off; the box and class
    convolutions have stride 3. Decoding boxes and non-maximum suppression are not part of it.
    """
    net = NetworkBuilder("ssd-resnet34", "MLPerf inference SSD-ResNet-34, shapes of the reference code")
    x = stem(net, Tensor(3, 1200, 1200))
    for number, (repeats, stride) in enumerate(((3, 1), (4, 2), (6, 1)), start=1):
        x = stage(net, number, x, basic_block, repeats, stride)
    maps = [x]
    for index, (between, channels, stride, padding) in enumerate(_EXTRA, start=1):
        x = net.conv(f"extra{index}.conv1", x, between, 1)
        x = net.conv(f"extra{index}.conv2", x, channels, 3, stride, padding)
        maps.append(x)
    for index, (feature_map, boxes) in enumerate(zip(maps, _BOXES, strict=True)):
        net.conv(f"boxes{index}", feature_map, boxes * 4, 3, 3)
        classes = net.conv(f"classes{index}", feature_map, boxes * _CLASSES, 3, 3)
        net.softmax(f"softmax{index}", classes)
    return net.build()
