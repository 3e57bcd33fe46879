"""The made-up input on which a network is tried and timed before it serves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.core.errors import ModelError
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.blocks.refusal import failure_of
from eunomia.serving.devices.memory import out_of_memory
from eunomia.serving.devices.messages import DATATYPES, Port, Ports
from eunomia.serving.devices.objection import is_own
from eunomia.serving.devices.piece import Feed
from eunomia.serving.devices.strings import BYTES

T = TypeVar("T")
PLACE = "in its [[network]], or of models_dir in NAME.toml or NAME/config.toml"


def trial_of(port: Port, shape: Sequence[int] | None, *, ones: bool = False) -> Tensor:
    """A seeded input: small positive numbers, zeros for integers (legal indices of any table) and as texts.

    ``ones``: in place of numbers; as sizes, divisors and factors they are legal where zeros are not.
    """
    size = shape or [1 if d < 0 else d for d in port["shape"]]
    dtype = DATATYPES[port["datatype"]]
    if port["datatype"] == BYTES:
        return np.full(size, "0", dtype)
    if ones:
        return np.ones(size, dtype)
    if dtype.kind == "f" or port["datatype"] == "BF16":
        return np.random.default_rng(0).random(size, np.float32).astype(dtype)
    return np.zeros(size, dtype)


def on_either(work: Callable[[bool], T]) -> T:
    """With the usual numbers, or where these fail with ones; raises LongBlock, or else the first ModelError."""
    try:
        return work(False)
    except LongBlock:
        raise
    except ModelError as error:
        try:
            return work(True)
        except LongBlock:
            raise
        except ModelError:
            raise error from None


def trial_feed(ports: Ports, shapes: Mapping[str, Sequence[int]], *, ones: bool = False) -> Feed:
    """One trial input per port, of the sizes in ``shapes``; raises ModelError where these do not fit the network."""
    known = {port["name"]: port["shape"] for port in ports["inputs"]}
    for name, shape in shapes.items():
        if name not in known:
            raise ModelError(f"shapes names '{name}', which is no input; the inputs are: {', '.join(known)}")
        if len(shape) != len(known[name]) or any(
            free not in (-1, size) for free, size in zip(known[name], shape, strict=True)
        ):
            raise ModelError(
                f"shapes.{name} is {list(shape)}, but the network has {known[name]} there; -1 takes any size"
            )
    return {port["name"]: trial_of(port, shapes.get(port["name"]), ones=ones) for port in ports["inputs"]}


class Unfit(ModelError):
    """The runtime refuses a made-up input; another one may run."""


@contextlib.contextmanager
def on_trial(feed: Feed, ports: Ports) -> Iterator[None]:
    """Say of a failure which sizes were tried; raises ModelError, Unfit where the input may be at fault.

    Lack of memory passes.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        if out_of_memory(error) is not None:
            raise
        sizes = ", ".join(f"{name} {list(np.shape(tensor))}" for name, tensor in feed.items())
        more = ""
        if unranked := ports.get("unranked"):
            names = ", ".join(f"'{name}'" for name in unranked)
            more = f"; its file does not say how many axes {names} has: give all as shapes {PLACE}"
        elif _small(feed, ports):
            more = f"; if that is too small, give sizes that fit as shapes {PLACE}"
        kind = ModelError if is_own(error) else Unfit
        raise kind(f"it fails on a trial input of {sizes}: {cause(error)}{more}") from None


def _small(feed: Feed, ports: Ports) -> bool:
    """Whether some free axis has one element: the first counts where no other is free."""
    for port in ports["inputs"]:
        free = [n for n, d in enumerate(port["shape"]) if d == -1]
        sizes = np.shape(feed.get(port["name"], ()))
        if any(sizes[n : n + 1] == (1,) for n in free[1:] or free):
            return True
    return False


def cause(error: Exception) -> str:
    """The runtime's own words of a failure, without the place in its source."""
    kind, name, words = failure_of(str(error).strip() or type(error).__name__)
    return f"node '{name}' ({kind}): {words}" if kind else words
