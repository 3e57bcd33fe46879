"""NumPy arrays by what they hold."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Records: TypeAlias = npt.NDArray[np.void]  # structured: ``records["field"]``
Tensor: TypeAlias = npt.NDArray[np.generic]  # elements of any one kind
