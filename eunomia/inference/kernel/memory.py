"""The kernel's arrays, by name and index, through the one record that tells of them.

Passing thirty arrays to every function makes numba's compile time and call cost explode: each is
seven machine words, unpacked in every function. Here each function gets one record, and
``slot_at(k, i)`` is a load and an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic

from eunomia.core.addresses import array_of, call_at, copy_fields, copy_items, item_at, record_of
from eunomia.inference.kernel.layout import ARRAYS, KERNEL

Kernel = Any  # a KERNEL record
Record = Any  # a record of one of the arrays
KERNEL_TYPE = from_dtype(KERNEL)


def _at(name: str) -> Callable[[Kernel, int], Record]:
    return item_at(KERNEL, name, ARRAYS[name])


def _copy(name: str) -> Callable[[Kernel, int, Kernel, int, int], None]:
    return copy_items(KERNEL, name, ARRAYS[name])


cost_at = _at("costs")
row_at = _at("rows")
successor_at = _at("successors")
model_at = _at("models")
job_at = _at("jobs")
pair_at = _at("pairs")
ring_at = _at("ring")
ranked_at = _at("ranked")
result_at = _at("results")
lane_at = _at("lanes")
end_at = _at("ends")
queue_at = _at("accelerators")
type_at = _at("types")
draw_at = _at("draws")
by_type_at = _at("by_type")
heap_at = _at("heaps")
standing_at = _at("standing")
heap_estimate_at = _at("heap_estimate")
candidate_at = _at("candidates")
marked_at = _at("marked")
think_at = _at("think")
slot_at = _at("slots")
pending_at = _at("pending")
node_at = _at("nodes")
facts_at = _at("ready")
waiting_at = _at("waiting")
fresh_at = _at("fresh")
timer_at = _at("timers")
view_node_at = _at("view_nodes")
shown_at = _at("view_ready")
view_latency_at = _at("view_latency")
view_demand_at = _at("view_demand")
view_energy_at = _at("view_energy")
answer_at = _at("answer")
answer_priority_at = _at("answer_priority")
subjob_at = _at("subjobs")
decision_at = _at("decisions")
free_in_at = _at("free_in")
term_at = _at("terms")
order_at = _at("orders")
number_at = _at("numbers")

system_of = record_of(KERNEL, "system", ARRAYS["system"])

# As arrays of numba's own, (k, rows) or (k, rows, columns): what a policy is given.
shown_of = array_of(KERNEL, "view_ready", ARRAYS["view_ready"])
latency_of = array_of(KERNEL, "view_latency", ARRAYS["view_latency"], np.float64, 2)
demand_of = array_of(KERNEL, "view_demand", ARRAYS["view_demand"], np.float64, 2)
energy_of = array_of(KERNEL, "view_energy", ARRAYS["view_energy"], np.float64, 2)
slowdowns_of = array_of(KERNEL, "slowdowns", ARRAYS["slowdowns"], np.float64)
numbers_of = array_of(KERNEL, "numbers", ARRAYS["numbers"], np.float64)
lanes_of = array_of(KERNEL, "lanes", ARRAYS["lanes"])
accelerators_of = array_of(KERNEL, "accelerators", ARRAYS["accelerators"])
answers_of = array_of(KERNEL, "answer", ARRAYS["answer"], np.int64, 2)
priorities_of = array_of(KERNEL, "answer_priority", ARRAYS["answer_priority"], np.float64)

# (source, first, target, to, count): from one kernel's array to another's.
copy_slots, copy_pending, copy_nodes = _copy("slots"), _copy("pending"), _copy("nodes")
copy_facts, copy_waiting, copy_lanes = _copy("ready"), _copy("waiting"), _copy("lanes")
copy_accelerators, copy_system = _copy("accelerators"), _copy("system")
call_linear = call_at(KERNEL, "linear_at")  # (kernel, SYSTEM record) -> number of answers
copy_scalars = copy_fields(KERNEL, "num_lanes")  # (source, target): sizes, counters, settings


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
