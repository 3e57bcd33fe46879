"""Blocks that write into memory kept from the last time, instead of new memory at each boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Feed = dict[str, npt.NDArray[Any]]
Shapes = tuple[tuple[int, ...], ...]
MAX_SHAPES = 8  # batch sizes, mostly, whose buffers one block keeps
MAX_SPARE = 4  # sets of buffers for one shape; more are needed only while more requests stand half-done


class Live:
    """Tensors alive at a block boundary, and how their memory is given back."""

    __slots__ = ("_give_back", "arrays")

    def __init__(self, arrays: Feed, give_back: Callable[[Feed], None] | None = None) -> None:
        self.arrays, self._give_back = arrays, give_back

    def release(self) -> None:
        """Nobody reads them any more."""
        if self._give_back is not None:
            self._give_back(self.arrays)
            self._give_back = None


class Piece:
    """One block's session.

    The first run with some input shapes is an ordinary one and tells the shapes of the outputs; later ones are bound
    to buffers of those shapes. A block whose output shapes depend on values, or are empty, runs as at first for ever.
    """

    def __init__(self, session: Any, inputs: list[str], outputs: list[str]) -> None:
        self._session, self._inputs, self._outputs = session, inputs, outputs
        self._binding = session.io_binding()
        self._spare: dict[Shapes, list[Feed]] = {}
        self._bindable = True

    def run(self, live: Live) -> Live:
        """Outputs for these inputs, whose memory is given back."""
        feed = live.arrays
        shapes = tuple(feed[name].shape for name in self._inputs)
        spare = self._spare.get(shapes) if self._bindable else None
        after = self._run_bound(feed, shapes, spare) if spare else self._run_anew(feed, shapes)
        live.release()
        return after

    def _run_anew(self, feed: Feed, shapes: Shapes) -> Live:
        arrays = self._session.run(self._outputs, {name: feed[name] for name in self._inputs})
        after = dict(zip(self._outputs, arrays, strict=True))
        if not self._bindable or not all(_reusable(a) for a in arrays):
            return Live(after)
        if shapes not in self._spare and len(self._spare) >= MAX_SHAPES:
            self._spare.pop(next(iter(self._spare)))
        spare = self._spare.setdefault(shapes, [])
        return Live(after, lambda arrays: _keep(spare, arrays))

    def _run_bound(self, feed: Feed, shapes: Shapes, spare: list[Feed]) -> Live:
        binding, after = self._binding, spare.pop()
        for name in self._inputs:
            binding.bind_cpu_input(name, feed[name])
        for name, array in after.items():
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        try:
            self._session.run_with_iobinding(binding)
        except Exception:  # the runtime has one kind of error for all: a changed shape, or a real failure
            self._bindable = False
            return self._run_anew(feed, shapes)
        return Live(after, lambda arrays: _keep(spare, arrays))


def _reusable(array: npt.NDArray[Any]) -> bool:
    return array.size > 0 and array.ndim > 0 and bool(array.flags.c_contiguous and array.flags.writeable)


def _keep(spare: list[Feed], arrays: Feed) -> None:
    if len(spare) < MAX_SPARE:
        spare.append(arrays)
