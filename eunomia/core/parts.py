"""Functions that only other compiled functions call: compiled as parts, not one by one.

numba optimises each function together with all that it calls, turns it into machine code and wraps it
twice so that Python can call it; each caller then does the same again to its own copy. For a kernel of a
hundred small functions that is more than half of the time to compile it. A part stops at LLVM's
intermediate code; the outermost function links all parts and optimises them once, as a C compiler does
with one source file. The machine code is as fast.

A part under ``fastmath`` is optimised alone nevertheless, before it is linked: the order of its sums, and with it the
last bits, would otherwise depend on what surrounds it. Only its machine code is left out.
"""

from __future__ import annotations

import gc
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from llvmlite.binding import Linkage
from numba import _dynfunc, njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import TargetConfig
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.types import Record
from numba.core.types.misc import unliteral
from numba.core.typing.templates import Signature
from numba.core.untyped_passes import InlineClosureLikes

FOR_COMPILED_CODE = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def write_records_once() -> None:
    """Let numba keep the text of a record type: it writes out all 150 fields of KERNEL at every call of a function."""
    write, written = Record.__repr__, dict[int, tuple[Any, str]]()

    def kept(record: Any) -> str:
        if id(record) not in written:
            written[id(record)] = record, write(record)
        return written[id(record)][1]

    Record.__repr__ = kept  # type: ignore[method-assign]


def compare_options_once() -> None:
    """Let numba compare the options of two compilations as they stand: it asks for all thirty by name, at every call.

    Its hash is that of their names, so it tells nothing apart and need not sort them each time.
    """
    unequal_at_sight = TargetConfig.__eq__

    def equal(one: TargetConfig, other: object) -> object:
        alike = isinstance(other, TargetConfig) and one._values == other._values
        return alike or unequal_at_sight(one, other)

    TargetConfig.__eq__ = equal
    TargetConfig.__hash__ = lambda one: hash(type(one))


@contextmanager
def no_collections() -> Iterator[None]:
    """Without Python's garbage collector, which a compilation calls dozens of times to find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Intermediate code of one function alone: not optimised, not linked, without machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Close the module."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def all_parts(self) -> list[Any]:
        """This one and all that it needs, for the outermost function to link."""
        return [self, *self._linking_libraries]


class OptimisedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Intermediate code of one function and all that it calls, optimised as numba does it, without machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def all_parts(self) -> list[object]:
        """This one, which holds all that it needs."""
        return [self]


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):  # type: ignore[misc]
    """numba's lowering, into a ``PartLibrary``."""

    _name = "part_lowering"
    library: type[JITCodeLibrary] = PartLibrary

    def run_pass(self, state: Any) -> bool:
        """Lower one function and let callers find it."""
        context = state.targetctx
        state.library = library = self.library(context.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        library.finalize()
        lowered, name = state["cr"], state.func_id.func_name
        token = _dynfunc.make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (library,))
        context.insert_user_function(token, lowered.fndesc, library.all_parts)
        state["cr"] = lowered._replace(cfunc=token)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class OptimisedLowering(PartLowering):
    """The same, into an ``OptimisedLibrary``."""

    _name = "optimised_part_lowering"
    library = OptimisedLibrary


class WholeLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Machine code of an outermost function and its parts, optimised in one go instead of twice.

    Its parts are its own, and no other code has their names. numba exports them under names that count the functions
    of a process, and the linker takes the first definition of a name that it meets. So code from the disk, made by two
    processes, would share parts that one function made with different constants around them (contention.py). It does
    so even where that definition is internal, and internal parts may take other arguments than they were written with.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        made = self._codegen._module_pass_manager()
        own = secrets.token_hex(8)
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr and not function.is_declaration:
                function.linkage, function.name = Linkage.internal, f"{function.name}.{own}"
        passes, *builder = made if isinstance(made, tuple) else (made,)  # numba before 0.62: no builder
        passes.run(self._final_module, *builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class WholeLowering(NativeLowering):  # type: ignore[misc]
    """numba's lowering, into a ``WholeLibrary``."""

    _name = "whole_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower, link, optimise, emit."""
        state.library = WholeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()  # before any code exists
        return bool(super().run_pass(state))


class PartCompiler(CompilerBase):  # type: ignore[misc]
    """numba's pipeline with another last step."""

    lowering: type[NativeLowering] = PartLowering
    skipped: tuple[object, ...] = (NopythonRewrites, InlineClosureLikes, InlineOverloads)

    def define_pipelines(self) -> list[Any]:
        """The one pipeline."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.add_pass_after(self.lowering, NativeLowering)
        skipped = (NativeLowering, *self.skipped)
        pipeline.passes = [step for step in pipeline.passes if step[0] not in skipped]
        pipeline.finalize()
        return [pipeline]


class WholeCompiler(PartCompiler):
    """The same for an outermost function."""

    lowering = WholeLowering


class PlainPartCompiler(PartCompiler):
    """For functions that use all of numba, expressions of arrays and closures included."""

    skipped = ()


class OptimisedPartCompiler(PlainPartCompiler):
    """The same under ``fastmath``."""

    lowering = OptimisedLowering


class Part(CPUDispatcher):  # type: ignore[misc]
    """A function that is compiled once per signature, whether an argument is a literal or not."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What type inference asks at each call."""
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(unliteral, args)), plain)

    @cached_property
    def _from_python(self) -> Any:
        own = {name: value for name, value in self.targetoptions.items() if name not in FOR_COMPILED_CODE}
        return njit(**own)(self.py_func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Called from Python: compiled as a function of its own."""
        return self._from_python(*args, **kwargs)


class FixedPart(Part):
    """A part that is compiled for one signature alone: arguments are converted to it, as arrays to read-only ones."""

    signature: Signature

    def get_call_template(self, args: object, kws: object) -> object:
        """What type inference asks at each call."""
        return super().get_call_template(self.signature.args, {})


class Outermost(CPUDispatcher):  # type: ignore[misc]
    """A function that numba compiles in its usual way, with the garbage collector off."""

    def compile(self, sig: object) -> object:
        """Compile for these types, or read the machine code from disk."""
        with no_collections():
            return super().compile(sig)


def part(function: Callable[..., Any], signature: Signature | None = None) -> Part:
    """A function for other compiled functions to call, with NumPy's rules for division by zero.

    ``signature``: compile for it alone. What it calls is then shared with all that call it with these types.
    """
    options = {"error_model": "numpy", **FOR_COMPILED_CODE}
    if signature is None:
        return Part(function, targetoptions=options, pipeline_class=PartCompiler)
    fixed = FixedPart(function, targetoptions=options, pipeline_class=PartCompiler)
    fixed.signature = signature
    return fixed


def plain_part(function: Callable[..., object], error_model: str, fastmath: set[str] | bool) -> Part:
    """A part of functions that numba compiles in its usual way."""
    options = {"error_model": error_model, "fastmath": fastmath, **FOR_COMPILED_CODE}
    pipeline = OptimisedPartCompiler if fastmath else PlainPartCompiler
    return Part(function, targetoptions=options, pipeline_class=pipeline)
