"""Whether a request fits the network that it names: at a glance where one like it did."""

from __future__ import annotations

from typing import NamedTuple

from eunomia.serving.devices.answers import Inputs
from eunomia.serving.devices.axes import are_empty, elements
from eunomia.serving.devices.messages import Ports
from eunomia.serving.models.entry import Entry
from eunomia.serving.protocol.checks import check_inputs, check_outputs, named_twice
from eunomia.serving.protocol.infer import InferRequest
from eunomia.serving.protocol.reshape import as_the_network_has
from eunomia.serving.protocol.written import check_text


class Fit(NamedTuple):
    """What all requests of a form fit: its network, and their sizes as that has them, inputs by name.

    ``ports``, ``empty``: of the network. ``alike``: their shapes behind the first axis; ``sizes``: elements per row.
    ``hollow``: where its owner could allow inputs that are empty; empty = nothing to allow.
    """

    ports: Ports
    empty: bool | None
    batch: int
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    alike: tuple[tuple[str, tuple[int, ...]], ...]
    sizes: tuple[int, ...]
    hollow: str


def fit_of(request: InferRequest, entry: Entry, ports: Ports, inputs: Inputs, most_text: int = 2**63) -> Fit:
    """Of a request with these tensors; raises BadRequest, or TooLarge for an answer above ``most_text`` as JSON."""
    known = request.form.fit if request.form is not None else None
    if isinstance(known, Fit) and known.ports is ports and known.empty == entry.empty:
        return known
    if len(inputs) < len(request.inputs):
        raise named_twice(request)
    batch = check_inputs(request.model, ports, inputs, entry.empty, entry.options)
    check_outputs(ports, request)
    check_text(request, ports, most_text)
    tensors = sorted(as_the_network_has(ports, inputs).items())
    shapes = tuple([(name, array.shape) for name, array in tensors])
    alike = tuple([(name, shape[1:]) for name, shape in shapes])
    sizes = tuple([max((array.size or elements(array.shape)) // batch, 1) for _, array in tensors])
    hollow = entry.options if entry.empty is None and are_empty(shapes) else ""
    fit = Fit(ports, entry.empty, batch, shapes, alike, sizes, hollow)
    if request.form is not None:
        request.form.fit = fit
    return fit
