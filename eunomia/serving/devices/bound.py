"""A whole network that reads its inputs and writes its outputs where they lie in the arena.

Slots of the arena are used again and again, so what the runtime must know of them is made once and kept. Nothing is
allocated and nothing copied per request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from eunomia.serving.devices.ending import RunOptions
from eunomia.serving.devices.messages import DATATYPES, Placed, Ports, array_at
from eunomia.serving.devices.piece import Binding, Session, live_of

MOST = 256  # bindings of one network; beyond them all are made anew
Shape = Sequence[int | str | None]  # as the runtime declares it: sizes, and names of sizes that are free


class Bound:
    """The session of a whole network, and its bindings by place."""

    options: RunOptions | None = None

    def __init__(self, session: Session, ports: Ports) -> None:
        self._session, self._ports = session, ports
        self._inputs: Mapping[str, Shape] = {one.name: one.shape for one in session.get_inputs()}
        self._outputs: Mapping[str, Shape] = {one.name: one.shape for one in session.get_outputs()}
        self._kept: dict[tuple[object, ...], tuple[Binding, list[Placed], int]] = {}

    def run(self, memory: memoryview, inputs: list[Placed], room: list[int]) -> list[Placed] | None:
        """One run; where its outputs lie in ``room`` (offset, size), None where it is to be run in another way.

        So it is where outputs do not fit, or their shapes do not follow from those of the inputs, or the run fails.
        """
        key = (room[0], *((t["name"], t["offset"], *t["shape"]) for t in inputs))
        found = self._kept.get(key)
        if found is None:
            outputs, end = self._placed(inputs, room[0])
            if not outputs or end > sum(room):
                return None
            if len(self._kept) >= MOST:
                self._kept.clear()
            found = self._kept[key] = self._bind(memory, inputs, outputs), outputs, end
        if found[2] > sum(room):  # bound where there was more room: what lies behind is somebody else's
            return None
        try:
            self._session.run_with_iobinding(found[0], self.options)
        except Exception:  # the runtime's own, of any kind: the other way says what is wrong, if anything is
            del self._kept[key]
            return None
        return found[1]

    def _placed(self, inputs: list[Placed], offset: int) -> tuple[list[Placed], int]:
        """Each output behind the last, and where they end; none where a shape is not known before the run."""
        sizes: dict[int | str | None, int] = {}
        for tensor in inputs:
            declared = self._inputs.get(tensor["name"], ())
            if len(declared) != len(tensor["shape"]):
                return [], offset
            for named, size in zip(declared, tensor["shape"], strict=True):
                if isinstance(named, str) and sizes.setdefault(named, size) != size:
                    return [], offset
        placed = list[Placed]()
        for port in self._ports["outputs"]:
            name, datatype = port["name"], port["datatype"]
            shape = [d if isinstance(d, int) else sizes.get(d, 0) for d in self._outputs[name]]
            if min(shape, default=1) < 1 or name in self._inputs:
                return [], offset
            placed.append({"name": name, "datatype": datatype, "shape": shape, "offset": offset})
            offset += -(-math.prod(shape) * DATATYPES[datatype].itemsize // 64) * 64
        return placed, offset

    def _bind(self, memory: memoryview, inputs: list[Placed], outputs: list[Placed]) -> Binding:
        binding = self._session.io_binding()
        for name, value in live_of({t["name"]: array_at(memory, t) for t in inputs}).items():
            binding.bind_ortvalue_input(name, value)
        for name, value in live_of({t["name"]: array_at(memory, t) for t in outputs}).items():
            binding.bind_ortvalue_output(name, value)
        return binding
