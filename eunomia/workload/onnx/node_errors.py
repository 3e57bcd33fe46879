"""Every error about a node names the node, its operator, and what can be done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from eunomia.core.errors import ModelError

_REMEDY = "check the file with onnx.checker.check_model and export it again"


@contextmanager
def naming(node: onnx.NodeProto) -> Iterator[None]:
    """Let an error of the inner code name ``node``.

    A ModelError keeps its sentence. Any other exception comes from inputs or attributes that nobody
    foresaw, in our code or in a library's, and becomes a ModelError too.
    """
    try:
        yield
    except ModelError as error:
        raise ModelError(f"node '{label(node)}' ({node.op_type}): {error}") from error
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ModelError(
            f"node '{label(node)}' ({node.op_type}) has inputs or attributes that do not fit it "
            f"({type(error).__name__}: {reason}); {_REMEDY}"
        ) from error


def label(node: onnx.NodeProto) -> str:
    """A name for messages: the node's own, else that of its first output."""
    return node.name or next(filter(None, node.output), "") or node.op_type
