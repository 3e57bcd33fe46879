"""One block on the runtime: its tensors stay in the runtime's memory from one block to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eunomia.core.arrays import Tensor

Feed = dict[str, Tensor]


class Value(Protocol):
    """A tensor in a runtime's memory: onnxruntime's OrtValue, or one on a torch device."""

    def numpy(self) -> Tensor:
        """As an array of the processor."""
        ...


Live = dict[str, Value]  # tensors alive at a block boundary


class Binding(Protocol):
    """Of onnxruntime: where one run finds its inputs and puts its outputs."""

    def bind_ortvalue_input(self, name: str, value: Value) -> None:
        """This input is that tensor."""
        ...

    def bind_output(self, name: str) -> None:
        """This output is wanted, wherever the runtime puts it."""
        ...

    def get_outputs(self) -> Sequence[Value]:
        """The outputs, in the order of their binding."""
        ...

    def clear_binding_inputs(self) -> None:
        """Let the inputs go."""
        ...

    def clear_binding_outputs(self) -> None:
        """Let the outputs go."""
        ...


class Session(Protocol):
    """Of onnxruntime: a network that is loaded."""

    def io_binding(self) -> Binding:
        """A new binding."""
        ...

    def run_with_iobinding(self, binding: Binding) -> None:
        """One run."""
        ...


def live_of(arrays: Feed) -> Live:
    """Arrays as the runtime takes them, without a copy; they must stay as they are until the block has run."""
    import onnxruntime as ort

    return {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}


class Piece:
    """One block's session.

    Outputs lie in the arena that all blocks share, where the next block finds them. The arena takes them back
    as soon as nobody holds them. Plain ``run`` would copy each into new memory: 2 to 3 % more for a network
    in 20 blocks.
    """

    def __init__(self, session: Session, inputs: list[str], outputs: list[str]) -> None:
        self._session, self._inputs, self._order = session, inputs, outputs
        self._outputs = [name for name in outputs if name not in inputs]
        self._passing = [
            name for name in outputs if name in inputs
        ]  # the runtime would hand out the input's memory
        self._binding = session.io_binding()

    def run(self, live: Live) -> Live:
        """The tensors alive after the block."""
        binding = self._binding
        for name in self._inputs:
            binding.bind_ortvalue_input(name, live[name])
        for name in self._outputs:
            binding.bind_output(name)
        try:
            self._session.run_with_iobinding(binding)
            after = dict(zip(self._outputs, binding.get_outputs(), strict=True))
            after.update((name, live[name]) for name in self._passing)
            return {name: after[name] for name in self._order}
        finally:
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()
