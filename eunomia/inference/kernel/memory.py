"""Typed access to the kernel's arrays through one record of addresses.

Passing thirty arrays to every function makes numba's compile time and call cost explode: each is
seven machine words, unpacked in every function. Here each function gets one pointer, and
``slot_at(k, i)`` is a load and an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic

from eunomia.inference.kernel.layout import ARRAYS, KERNEL

Kernel = Any  # a KERNEL record
Record = Any  # a record of one of the arrays
KERNEL_TYPE = from_dtype(KERNEL)


def _accessor(name: str, element: np.dtype[Any] | None = None) -> Callable[[Any, int], Any]:
    """A jittable function (k, i) -> record i of array ``name``, without bounds check."""
    dtype = ARRAYS[name] if element is None else element
    record, size, offset = from_dtype(dtype), dtype.itemsize, KERNEL.fields[name][1]  # type: ignore[index]

    @intrinsic
    def at(typingctx, k, i):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            kernel, index = args
            word, byte = ir.IntType(64), ir.IntType(8)
            start = builder.bitcast(kernel, byte.as_pointer())
            field = builder.gep(start, [word(offset)])
            load = builder.load(builder.bitcast(field, word.as_pointer()))
            load.set_metadata("invariant.load", builder.module.add_metadata([]))
            index = context.cast(builder, index, signature.args[1], types.int64)
            first = builder.inttoptr(load, byte.as_pointer())
            address = builder.gep(first, [builder.mul(index, word(size))], inbounds=True)
            return builder.bitcast(address, context.get_value_type(record))

        if isinstance(i, types.Integer) and k == KERNEL_TYPE:
            return record(k, i), codegen
        return None

    return at


cost_at = _accessor("costs")
row_at = _accessor("rows")
successor_at = _accessor("successors")
model_at = _accessor("models")
job_at = _accessor("jobs")
pair_at = _accessor("pairs")
ring_at = _accessor("ring")
ranked_at = _accessor("ranked")
result_at = _accessor("results")
lane_at = _accessor("lanes")
end_at = _accessor("ends")
queue_at = _accessor("accelerators")
type_at = _accessor("types")
heap_at = _accessor("heaps")
ranking_at = _accessor("ranking")
class_estimate_at = _accessor("class_estimate")
idle_finish_at = _accessor("idle_finish")
busy_finish_at = _accessor("busy_finish")
marked_at = _accessor("marked")
think_at = _accessor("think")
slot_at = _accessor("slots")
pending_at = _accessor("pending")
node_at = _accessor("nodes")
facts_at = _accessor("ready")
waiting_at = _accessor("waiting")
fresh_at = _accessor("fresh")
timer_at = _accessor("timers")
view_node_at = _accessor("view_nodes")
shown_at = _accessor("view_ready")
view_latency_at = _accessor("view_latency")
view_demand_at = _accessor("view_demand")
view_energy_at = _accessor("view_energy")
answer_at = _accessor("answer")
answer_priority_at = _accessor("answer_priority")
subjob_at = _accessor("subjobs")
decision_at = _accessor("decisions")
free_in_at = _accessor("free_in")


@intrinsic
def pointer(typingctx, address):  # type: ignore[no-untyped-def]
    """An address as an untyped pointer, for ``numba.carray``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), codegen


@intrinsic
def system_of(typingctx, k):  # type: ignore[no-untyped-def]
    """The SYSTEM record."""
    record, offset = from_dtype(ARRAYS["system"]), KERNEL.fields["system"][1]  # type: ignore[index]

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        word, byte = ir.IntType(64), ir.IntType(8)
        field = builder.gep(builder.bitcast(args[0], byte.as_pointer()), [word(offset)])
        load = builder.load(builder.bitcast(field, word.as_pointer()))
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return builder.inttoptr(load, context.get_value_type(record))

    return record(k), codegen


@intrinsic
def expect(typingctx, record):  # type: ignore[no-untyped-def]
    """Bring a record that will be needed soon into the cache."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(function, [builder.bitcast(args[0], byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(record), codegen
