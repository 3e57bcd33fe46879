"""An ONNX file with its weights in it, read from the files beside it.

The library of ONNX refuses weights behind symbolic links and files with several names. Both are common: snapshots of
Hugging Face, volumes of Kubernetes, stores that keep equal files once. Where links may lead, ``weight_files`` checks.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from eunomia.core.errors import ModelError

if TYPE_CHECKING:
    import onnx

QUARTERS = {"UINT4": 2, "INT4": 2, "FLOAT4E2M1": 2, "UINT2": 1, "INT2": 1}  # of a byte, for each element


def fill(name: str, folder: Path, tensors: Iterable[onnx.TensorProto], most: int) -> None:
    """Put the weights of a network into its tensors; ``most``: bytes of all. Raises ModelError and OSError.

    Locations have been checked (``weight_files``).
    """
    import onnx

    left = most
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for tensor in tensors:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            told = {entry.key: entry.value for entry in tensor.external_data}
            location = os.path.normpath(told.get("location", ""))
            if location not in files:
                files[location] = stack.enter_context((folder / location).open("rb"))
            try:
                offset, size = int(told.get("offset") or 0), _size(tensor, int(told.get("length") or 0))
                left -= size
                content = _read(files[location], offset, size if left >= 0 else -1)
            except ValueError as error:
                text = f"the weights of '{tensor.name[:100]}' in '{location}': {error}"
                raise ModelError(f"{name}: {text}; copy both files again, or export again") from None
            tensor.raw_data = content
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")


def _size(tensor: onnx.TensorProto, length: int) -> int:
    """Bytes that its type and shape take, which the length must be if there is one. Raises ValueError."""
    import onnx

    if tensor.data_type == onnx.TensorProto.STRING or min(tensor.dims, default=1) < 0:
        raise ValueError("they are texts, or have a negative axis")
    quarters = QUARTERS.get(onnx.TensorProto.DataType.Name(tensor.data_type))
    if quarters is None:
        quarters = 4 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    size = int(math.prod(tensor.dims) * quarters + 3) // 4
    if length not in (0, size):
        raise ValueError(f"its shape takes {size} bytes, and {length} are said to be there")
    return size


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    """Raises ValueError for what the file does not hold."""
    known = os.fstat(file.fileno())
    if not stat.S_ISREG(known.st_mode):
        raise ValueError("it is no file")
    if size < 0:
        raise ValueError("with those of the tensors before, they are more than one network may have")
    if not 0 <= offset <= known.st_size - size:
        raise ValueError(f"bytes {offset} to {offset + size} of {known.st_size} are wanted")
    file.seek(offset)
    content = file.read(size)
    if len(content) < size:
        raise ValueError("it has become shorter")
    return content
