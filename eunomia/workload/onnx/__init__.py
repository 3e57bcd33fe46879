"""Any ONNX file as a network of layers: ``read_onnx``."""

from eunomia.workload.onnx.reader import read_onnx

__all__ = ["read_onnx"]
