"""What to say of messages that were made for another protocol, or by a client that spells fields in its own way."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES

V1 = (
    "instances",
    "dataframe_split",
    "dataframe_records",
    "messages",
    "prompt",
    "text_input",
)  # of other servers
EXAMPLE = '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1]}]}'


def no_list(key: str, content: Mapping[str, object]) -> str:
    """The sentence where a message's list of tensors is none, or is missing."""
    if key == "outputs":
        return '\'outputs\' must be a list of objects: send [{"name": "y"}], or leave it out for all of them'
    if key in content:
        return f"'inputs' must be a list of objects: send {EXAMPLE}"
    other = next((name for name in V1 if name in content), None)
    if other is not None:
        return f"the body has '{other}', of another protocol; this is V2, which has 'inputs': send {EXAMPLE}"
    return f"'inputs' is missing{alike('inputs', content)}: send {EXAMPLE}"


def alike(key: str, content: Mapping[str, object]) -> str:
    """That a field is written otherwise than the one that is missing: ``dataType``."""
    other = next((name for name in content if name[:40].replace("_", "").lower() == key), None)
    return "" if other is None else f" (write '{other}' as '{key}')"


def meant_type(text: str) -> str:
    """The datatype that another spelling stands for: ``fp32``, ``TYPE_FP32``, ``float32``, ``STRING``."""
    name = text[:40].upper().removeprefix("TYPE_")
    name = {"STRING": "BYTES", "BFLOAT16": "BF16", "FLOAT": "FP32", "DOUBLE": "FP64"}.get(name, name)
    if name not in DATATYPES:
        try:
            name = DATATYPE_OF.get(np.dtype(name.lower()), "")
        except (TypeError, ValueError, SyntaxError):
            name = ""
    return f": write {name}" if name else ""
