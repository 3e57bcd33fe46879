"""YOLO detectors: YOLO-Lite, YOLOv2, YOLOv3. Decoding boxes is not part of them."""

from __future__ import annotations

from eunomia.core.errors import ConfigError
from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel

_BOXES_V2, _BOXES_V3 = 5, 3  # boxes per position, each with 5 numbers and one score per class


def yolo_lite(classes: int = 20) -> DnnModel:
    """YOLO-Lite (Huang et al., IEEE Big Data 2018): trial 3 without batch normalization, 224 x 224.

    20 ``classes`` are those of Pascal VOC.
    """
    net = NetworkBuilder("yolo-lite", "YOLO-Lite trial 3 without batch normalization, arXiv:1811.05588")
    x = Tensor(3, 224, 224)
    for index, channels in enumerate((16, 32, 64, 128, 128), start=1):
        x = net.conv(f"conv{index}", x, channels, 3)
        x = net.pool(f"pool{index}", x, 2, 2)
    x = net.conv("conv6", x, 256, 3)
    net.conv("conv7", x, _BOXES_V2 * (5 + classes), 1)
    return net.build()


def yolov2(size: int = 416) -> DnnModel:
    """YOLOv2 (Redmon and Farhadi, CVPR 2017) for the 80 classes of COCO; ``size`` is a multiple of 32."""
    net = NetworkBuilder("yolov2", f"YOLOv2, CVPR 2017, darknet's yolov2.cfg at {size} x {size}")
    x = _image("yolov2", size)
    index = 0
    stages: tuple[tuple[int, ...], ...] = (
        (32,),
        (64,),
        (128, 64, 128),
        (256, 128, 256),
        (512, 256, 512, 256, 512),
        (1024, 512, 1024, 512, 1024),
    )
    passed = x
    for stage, widths in enumerate(stages, start=1):
        if stage > 1:
            x = net.pool(f"pool{stage - 1}", x, 2, 2)
        for position, channels in enumerate(widths):  # 3 x 3, and 1 x 1 wherever a layer narrows
            index += 1
            x = net.conv(f"conv{index}", x, channels, 3 if position % 2 == 0 else 1, norm=True)
        passed = x if stage == 5 else passed
    x = net.conv("conv19", x, 1024, 3, norm=True)
    x = net.conv("conv20", x, 1024, 3, norm=True)
    passed = net.conv("conv21", passed, 64, 1, norm=True)
    passed = net.move("reorganize", passed, 256, size // 32, size // 32)
    x = net.conv("conv22", net.concat(passed, x), 1024, 3, norm=True)
    net.conv("conv23", x, _BOXES_V2 * (5 + 80), 1)
    return net.build()


def yolov3(size: int = 416) -> DnnModel:
    """YOLOv3 (Redmon and Farhadi, 2018) for the 80 classes of COCO; ``size`` is a multiple of 32."""
    net = NetworkBuilder("yolov3", f"YOLOv3, arXiv:1804.02767, darknet's yolov3.cfg at {size} x {size}")
    x = net.conv("conv0", _image("yolov3", size), 32, 3, norm=True)
    scales = []
    for stage, repeats in enumerate((1, 2, 8, 8, 4), start=1):
        channels = 32 * 2**stage
        x = net.conv(f"down{stage}", x, channels, 3, 2, norm=True)
        for repeat in range(repeats):
            y = net.conv(f"res{stage}.{repeat}.conv1", x, channels // 2, 1, norm=True)
            y = net.conv(f"res{stage}.{repeat}.conv2", y, channels, 3, norm=True)
            x = net.add(f"res{stage}.{repeat}.add", y, x)
        scales.append(x)
    x = _yolov3_head(net, "large", scales[4], 512)
    x = _yolov3_head(net, "middle", net.concat(_up(net, "middle", x, 256), scales[3]), 256)
    _yolov3_head(net, "small", net.concat(_up(net, "small", x, 128), scales[2]), 128)
    return net.build()


def _image(name: str, size: int) -> Tensor:
    if size < 32 or size % 32:
        raise ConfigError(f"{name} takes images whose side is a multiple of 32; size = {size}")
    return Tensor(3, size, size)


def _yolov3_head(net: NetworkBuilder, name: str, x: Tensor, width: int) -> Tensor:
    for index in range(5):
        kernel, channels = (1, width) if index % 2 == 0 else (3, 2 * width)
        x = net.conv(f"{name}.conv{index}", x, channels, kernel, norm=True)
    y = net.conv(f"{name}.conv5", x, 2 * width, 3, norm=True)
    net.conv(f"{name}.boxes", y, _BOXES_V3 * (5 + 80), 1)
    return x


def _up(net: NetworkBuilder, name: str, x: Tensor, channels: int) -> Tensor:
    x = net.conv(f"{name}.narrow", x, channels, 1, norm=True)
    return net.move(f"{name}.upsample", x, channels, 2 * x.height, 2 * x.width)
