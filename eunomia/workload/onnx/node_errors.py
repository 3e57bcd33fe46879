"""Every error about a node names the node, its operator, and what can be done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from eunomia.core.errors import ModelError

REMEDY = "check the file with onnx.checker.check_model and export it again"


class NodeError(ModelError):
    """A ModelError that names its node already."""


@contextmanager
def naming(node: onnx.NodeProto, path: str = "") -> Iterator[None]:
    """Let an error of the inner code name ``node``, by its ``path`` where it stands in a branch or loop.

    A ModelError keeps its sentence. Any other exception comes from inputs or attributes that nobody
    foresaw, in our code or in a library's, and becomes a ModelError too.
    """
    place = f"node '{path or label(node)}' ({node.op_type})"
    try:
        yield
    except NodeError:
        raise
    except ModelError as error:
        raise NodeError(f"{place}: {error}") from error
    except Exception as error:
        reason = " ".join(str(error).split())
        raise NodeError(
            f"{place} has inputs or attributes that do not fit it ({type(error).__name__}: {reason}); {REMEDY}"
        ) from error


def label(node: onnx.NodeProto) -> str:
    """A name for messages: the node's own, else that of its first output."""
    return node.name or next(filter(None, node.output), "") or node.op_type
