"""Whether a request fits the network that it names, and what its parameters say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from difflib import get_close_matches

from eunomia.serving.devices.answers import Inputs
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES, Ports
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import InferRequest
from eunomia.serving.protocol.ranking import check_classes

FILES = ("file:...",)  # what a load has that is too large to be read
KEPT = "leave out {}: an input to which the file gives a default keeps it, and others are unknown"
LIKE, LETTERS = 3, 40  # names, and letters of them, that are compared: that takes longest of all in a refusal
BOUND = 2**63  # of numbers in parameters: JSON knows larger ones, which no float holds


def check_inputs(
    model: str, ports: Ports, inputs: Inputs, empty: bool | None = None, options: str = "its [[network]]"
) -> int:
    """Exactly the network's inputs, of its types and shapes; returns the batch size. Raises BadRequest.

    ``empty``: they may be so behind the first axis; None = a trial decides.
    ``options``: where the network's owner can say that.
    """
    wanted = {port["name"]: port for port in ports["inputs"]}
    if set(wanted) != set(inputs):
        raise BadRequest(other_names(model, wanted.keys(), inputs.keys()))
    batch = 1
    for name, array in inputs.items():
        port = wanted[name]
        shape = port["shape"]
        fits = len(shape) == array.ndim and all(w in (-1, s) for w, s in zip(shape, array.shape, strict=True))
        if not fits:
            more = f"; its file does not say how many axes that has, but shapes in {options} can"
            raise BadRequest(
                f"input '{name}' has shape {list(array.shape)}; model '{model}' takes {shape}"
                + more * (name in ports.get("unranked", ()))
            )
        if array.dtype != DATATYPES[port["datatype"]]:
            given = DATATYPE_OF[array.dtype]
            raise BadRequest(
                f"input '{name}' holds {given}; model '{model}' takes {port['datatype']}: convert it before"
            )
        if shape and shape[0] == -1:
            if not array.shape[0]:
                raise BadRequest(
                    f"input '{name}' has shape {list(array.shape)}: it has no row (its first axis is 0); send one at "
                    "least"
                )
            batch = max(batch, array.shape[0])
        if empty is False and not array.size:
            raise BadRequest(
                f"input '{name}' has shape {list(array.shape)}: it is empty, which empty = true in {options} allows"
            )
    return batch


def other_names(model: str, wanted: Set[str], given: Set[str]) -> str:
    """What is missing and what is too much; a name that is like a missing one may stand for it."""
    missing, unknown = sorted(wanted - given), sorted(given - wanted)
    meant, words = set[str](), list[str]()
    for name in missing:
        near = like(name, [one for one in unknown if one not in meant]) if len(words) < LIKE else None
        words.append(f"input '{name}' is missing" + (f" (did you mean it by '{near}'?)" if near else ""))
        meant |= {near} if near else set()
    words.append(
        f"model '{model}' takes the inputs {', '.join(sorted(wanted))}; given: {', '.join(sorted(given)) or 'none'}"
    )
    if useless := ", ".join(name for name in unknown if name not in meant):
        words.append(KEPT.format(useless))
    return "; ".join(words)


def like(name: str, others: Sequence[str]) -> str | None:
    """One of a few names that hardly differs from this one."""
    near = {one[:LETTERS].lower(): one for one in others[:LIKE]}
    found = get_close_matches(name[:LETTERS].lower(), near, n=1)
    return near[found[0]] if found else None


def named_twice(request: InferRequest) -> BadRequest:
    """The error of a request that gives an input more than once."""
    names = [tensor.name for tensor in request.inputs]
    twice = next(name for name in names if names.count(name) > 1)
    return BadRequest(f"input '{twice}' is named twice: give each tensor once")


def check_outputs(ports: Ports, request: InferRequest) -> None:
    """Only outputs that the network has, each once: an answer is no larger than they are. Raises BadRequest."""
    known, asked = {port["name"]: port["datatype"] for port in ports["outputs"]}, set[str]()
    for output in request.outputs:
        if output.name in asked:
            raise BadRequest(f"output '{output.name}' is named twice; once is enough")
        asked.add(output.name)
        if output.name not in known:
            raise BadRequest(
                f"model '{request.model}' has no output '{output.name}'; it has {', '.join(known)}"
            )
        check_classes(output, known[output.name])


def check_load(parameters: Iterable[str]) -> None:
    """That it has none, as Triton's ``config`` and ``file:...``: they would have no effect. Raises BadRequest."""
    if names := ", ".join(parameters):
        raise BadRequest(
            f"a load takes no parameters, and this one has {names:.100}: load without config and files; a network is "
            "the file that the server has, and what its [[network]] says"
        )


def duration_s(parameters: Mapping[str, object], name: str, unit_s: float) -> float:
    """A time in a request's parameters, in seconds; inf = none or 0. Raises BadRequest."""
    value = parameters.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < BOUND:
        raise BadRequest(f"parameter '{name}' is {value!r:.50}; a number from 0 to 2^63 is expected")
    return value * unit_s if value > 0 else math.inf


def whole_number(parameters: Mapping[str, object], name: str) -> int:
    """A whole number in a request's parameters, 0 = not given. Raises BadRequest."""
    value = parameters.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < BOUND:
        raise BadRequest(f"parameter '{name}' is {value!r:.50}; a whole number from 0 to 2^63 is expected")
    return value
