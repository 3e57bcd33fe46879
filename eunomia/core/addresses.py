"""The one place that reaches memory by its address. All other code names an array and an index.

Compiled code gets one record instead of dozens of arrays. A *table* is such a record: for each of its named arrays
it says where the array stands and how many items it has. ``item_at``, ``array_of`` and ``copy_items`` make functions
over it. A *block* is an array that a policy brings along (weights, notes): the SYSTEM record of its View has room for
some, written by ``give_blocks`` and read by what ``block_of`` and ``block_record`` make.

Whole arrays, copies and blocks are always checked, and raise IndexError. Single items are checked where numba checks
its own arrays: with NUMBA_BOUNDSCHECK=1. Then negative indices are refused, too (inference/kernel/bounds.py).

A record does not keep its arrays alive. Whoever links them holds them as long as the record is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, from_dtype, types
from numba.core.cgutils import if_unlikely, raw_memcpy
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

Array = npt.NDArray[Any]
Layout = np.dtype[Any]
Function = Callable[..., Any]  # what ``intrinsic`` makes

_WORD, _BYTE = ir.IntType(64), ir.IntType(8)


# --- written from Python ---


def table_fields(names: Sequence[str]) -> list[tuple[str, str]]:
    """Fields of a record that tells of arrays: all places first, then all numbers of items."""
    return [(f"{name}_at", "u8") for name in names] + [(f"{name}_items", "i8") for name in names]


def link(table: Array, arrays: Mapping[str, Array]) -> None:
    """Enter arrays into a table (1,). Raises ValueError for one that is not in one piece."""
    for name, array in arrays.items():
        table[f"{name}_at"], table[f"{name}_items"] = _address(name, array), array.size


def share(target: Array, source: Array, names: Sequence[str]) -> None:
    """Let a table (1,) tell of the same arrays as another."""
    for name in names:
        for field in (f"{name}_at", f"{name}_items"):
            target[field] = source[field]


def give_blocks(system: Any, arrays: Sequence[Array], first: int = 0) -> None:
    """Enter arrays into a SYSTEM record as its blocks ``first`` and following. Raises ValueError."""
    at, size = system["block_at"], system["block_bytes"]
    if first + len(arrays) > at.shape[-1]:
        raise ValueError(f"{first + len(arrays)} blocks; a SYSTEM record holds {at.shape[-1]}")
    for n, array in enumerate(arrays, first):
        at[..., n], size[..., n] = _address(f"block {n}", array), array.nbytes


def _address(name: str, array: Array) -> int:
    if not array.flags.c_contiguous:
        raise ValueError(f"'{name}' is not one piece of memory; give a contiguous copy of it")
    return int(array.ctypes.data)


# --- tables, read by compiled code ---


def item_at(layout: Layout, name: str, item: Layout) -> Function:
    """(table, i) -> record i of array ``name``; i is checked with NUMBA_BOUNDSCHECK=1 alone."""
    record, table, column = from_dtype(item), from_dtype(layout), _Column(layout, name, item)

    @intrinsic
    def function(typingctx, k, i):  # type: ignore[no-untyped-def]
        def codegen(*lowering):  # type: ignore[no-untyped-def]
            code = _Code(*lowering)
            index = code.whole(1)
            if config.BOUNDSCHECK:
                beyond = code.builder.icmp_unsigned(">=", index, column.items(code, 0))  # also if negative
                code.refuse(beyond, f"index beyond the items of '{name}'")
            return code.builder.bitcast(column.place(code, 0, index), code.kind(record))

        return (record(k, i), codegen) if isinstance(i, types.Integer) and k == table else None

    return function  # type: ignore[no-any-return]


def record_of(layout: Layout, name: str, item: Layout) -> Function:
    """(table) -> the one record of array ``name``."""
    record, table, column = from_dtype(item), from_dtype(layout), _Column(layout, name, item)

    @intrinsic
    def function(typingctx, k):  # type: ignore[no-untyped-def]
        def codegen(*lowering):  # type: ignore[no-untyped-def]
            code = _Code(*lowering)
            return code.builder.bitcast(column.place(code, 0, _WORD(0)), code.kind(record))

        return (record(k), codegen) if k == table else None

    return function  # type: ignore[no-any-return]


def array_of(layout: Layout, name: str, item: Layout, seen_as: Any = None, dimensions: int = 1) -> Function:
    """(table, rows) or, of two ``dimensions``, (table, rows, columns) -> the first items of array ``name``.

    An array of numba's own; ``seen_as``: another dtype of the same memory. Raises IndexError if it has fewer items.
    """
    kind, column = np.dtype(item if seen_as is None else seen_as), _Column(layout, name, item)
    returned = types.Array(from_dtype(kind), dimensions, "C")

    def codegen(*lowering):  # type: ignore[no-untyped-def]
        return column.seen(_Code(*lowering), kind, dimensions)

    def row(typingctx, k, rows):  # type: ignore[no-untyped-def]
        return returned(k, rows), codegen

    def grid(typingctx, k, rows, columns):  # type: ignore[no-untyped-def]
        return returned(k, rows, columns), codegen

    return intrinsic(row if dimensions == 1 else grid)  # type: ignore[no-any-return]


def copy_items(layout: Layout, name: str, item: Layout) -> Function:
    """(source, first, target, to, count): items of array ``name`` from one table's to another's. Raises IndexError."""
    column = _Column(layout, name, item)

    @intrinsic
    def function(typingctx, source, first, target, to, count):  # type: ignore[no-untyped-def]
        def codegen(*lowering):  # type: ignore[no-untyped-def]
            code = _Code(*lowering)
            start, end, length = code.whole(1), code.whole(3), code.whole(4)
            for table, index in ((0, start), (2, end)):
                items = column.items(code, table)
                beyond = code.builder.icmp_unsigned(">", index, items)
                short = code.builder.icmp_unsigned(">", length, code.builder.sub(items, index))
                code.refuse(code.builder.or_(beyond, short), f"a copy beyond the items of '{name}'")
            places = column.place(code, 2, end), column.place(code, 0, start)
            raw_memcpy(code.builder, *places, length, item.itemsize)
            return code.context.get_dummy_value()

        return types.void(source, first, target, to, count), codegen

    return function  # type: ignore[no-any-return]


def copy_fields(layout: Layout, first: str) -> Function:
    """(source, target): the fields of a record from ``first`` on, to another record of its kind."""
    offset, table = _offset(layout, first), from_dtype(layout)

    @intrinsic
    def function(typingctx, source, target):  # type: ignore[no-untyped-def]
        def codegen(*lowering):  # type: ignore[no-untyped-def]
            code = _Code(*lowering)
            raw_memcpy(
                code.builder, code.byte(1, offset), code.byte(0, offset), _WORD(layout.itemsize - offset), 1
            )
            return code.context.get_dummy_value()

        return (types.void(source, target), codegen) if source == target == table else None

    return function  # type: ignore[no-any-return]


def call_at(layout: Layout, field: str) -> Function:
    """(table, record) -> whole number: call the machine code whose address the table keeps in ``field``.

    The code is that of a compiled function of both records (``address_of``). Raises IndexError where there is none.
    """
    offset, table = _offset(layout, field), from_dtype(layout)

    @intrinsic
    def function(typingctx, k, other):  # type: ignore[no-untyped-def]
        def codegen(*lowering):  # type: ignore[no-untyped-def]
            code = _Code(*lowering)
            address = code.builder.load(code.word(0, offset))
            code.refuse(code.builder.icmp_unsigned("==", address, _WORD(0)), f"no machine code at '{field}'")
            kinds = [code.kind(kind) for kind in code.signature.args]
            place = code.builder.inttoptr(address, ir.FunctionType(_WORD, kinds).as_pointer())
            return code.builder.call(place, code.args)

        return (types.int64(k, other), codegen) if k == table else None

    return function  # type: ignore[no-any-return]


def address_of(compiled: CPUDispatcher) -> int:
    """Where the machine code of a function stands that was compiled for one signature; it never moves."""
    (result,) = compiled.overloads.values()
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


# --- blocks, read by compiled code ---


def block_of(system: Layout, n: int, item: Any) -> Function:
    """(SYSTEM record) -> block ``n`` as an array (items,). Raises IndexError if there is none."""
    kind, record, offsets = np.dtype(item), from_dtype(system), _block_offsets(system, n)

    @intrinsic
    def function(typingctx, view):  # type: ignore[no-untyped-def]
        def codegen(*lowering):  # type: ignore[no-untyped-def]
            code = _Code(*lowering)
            place, size = _block(code, offsets, n)
            return code.array(place, [code.builder.udiv(size, _WORD(kind.itemsize))], kind)

        return (types.Array(from_dtype(kind), 1, "C")(view), codegen) if view == record else None

    return function  # type: ignore[no-any-return]


def block_record(system: Layout, n: int, item: Layout) -> Function:
    """(SYSTEM record) -> the one record that block ``n`` is. Raises IndexError if there is none of this size."""
    kind, record, offsets = from_dtype(item), from_dtype(system), _block_offsets(system, n)

    @intrinsic
    def function(typingctx, view):  # type: ignore[no-untyped-def]
        def codegen(*lowering):  # type: ignore[no-untyped-def]
            code = _Code(*lowering)
            place, size = _block(code, offsets, n)
            other = code.builder.icmp_unsigned("!=", size, _WORD(item.itemsize))
            code.refuse(other, f"block {n} of the View is of another kind")
            return code.builder.bitcast(place, code.kind(kind))

        return (kind(view), codegen) if view == record else None

    return function  # type: ignore[no-any-return]


def _block_offsets(system: Layout, n: int) -> tuple[int, int]:
    """Where a SYSTEM record says where block ``n`` stands, and how large it is. Raises ValueError."""
    room = system["block_at"].shape[0]
    if not 0 <= n < room:
        raise ValueError(f"block {n}; a SYSTEM record has blocks 0 to {room - 1}")
    return _offset(system, "block_at") + 8 * n, _offset(system, "block_bytes") + 8 * n


def _block(code: _Code, offsets: tuple[int, int], n: int) -> tuple[Any, Any]:
    """Pointer and size of a block that must be there. Compiled code may copy SYSTEM records, so it is loaded anew."""
    at, size = (code.builder.load(code.word(0, offset)) for offset in offsets)
    code.refuse(code.builder.icmp_unsigned("==", at, _WORD(0)), f"the View carries no block {n}")
    return code.builder.inttoptr(at, _BYTE.as_pointer()), size


# --- arrays without an owner, in compiled code ---


@intrinsic
def lent(typingctx, array):  # type: ignore[no-untyped-def]
    """(array) -> the same memory without an owner, so that no function that takes it counts a reference.

    Counting is an atomic operation, and most of the time of small functions that are called once per row. Call
    ``in_use`` on the array itself after the last use of what was lent: numba gives memory back where the name of its
    owner is not read any more.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        owned = make_array(array)(context, builder, args[0])
        free = make_array(array)(context, builder)
        free.data, free.shape, free.strides = owned.data, owned.shape, owned.strides
        free.itemsize, free.nitems = owned.itemsize, owned.nitems
        free.meminfo = context.get_constant_null(types.MemInfoPointer(array.dtype))
        free.parent = context.get_constant_null(types.pyobject)
        return free._getvalue()

    return (array(array), codegen) if isinstance(array, types.Array) else None


@intrinsic
def in_use(typingctx, array):  # type: ignore[no-untyped-def]
    """(array): does nothing. Its memory is in use up to here."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return context.get_dummy_value()

    return (types.void(array), codegen) if isinstance(array, types.Array) else None


# --- words and pointers ---


def _offset(layout: Layout, field: str) -> int:
    fields = layout.fields
    assert fields is not None
    return int(fields[field][1])


@dataclass(frozen=True)
class _Code:
    """What numba gives to those who write intermediate code for one call."""

    context: Any
    builder: Any
    signature: Any
    args: Any

    def whole(self, n: int) -> Any:
        """Argument ``n``, a whole number, in 64 bits."""
        return self.context.cast(self.builder, self.args[n], self.signature.args[n], types.int64)

    def kind(self, numba_type: Any) -> Any:
        """The intermediate code's name of a type."""
        return self.context.get_value_type(numba_type)

    def byte(self, n: int, offset: int) -> Any:
        """A pointer into the record that is argument ``n``."""
        start = self.builder.bitcast(self.args[n], _BYTE.as_pointer())
        return self.builder.gep(start, [_WORD(offset)])

    def word(self, n: int, offset: int) -> Any:
        """The same, to a word of eight bytes."""
        return self.builder.bitcast(self.byte(n, offset), _WORD.as_pointer())

    def refuse(self, wrong: Any, what: str) -> None:
        """Raise IndexError where a condition holds."""
        with if_unlikely(self.builder, wrong):
            self.context.call_conv.return_user_exc(self.builder, IndexError, (what,))

    def array(self, place: Any, shape: list[Any], kind: Layout) -> Any:
        """An array of numba's own over memory that belongs to somebody else."""
        array = make_array(self.signature.return_type)(self.context, self.builder)
        size = _WORD(kind.itemsize)
        strides = [size] if len(shape) == 1 else [self.builder.mul(shape[1], size), size]
        data = self.builder.bitcast(place, self.context.get_data_type(from_dtype(kind)).as_pointer())
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return array._getvalue()


@dataclass(frozen=True)
class _Column:
    """One array of a table. No compiled function writes to a table, so that one load serves for many uses."""

    layout: Layout
    name: str
    item: Layout

    def _load(self, code: _Code, table: int, field: str) -> Any:
        word = code.builder.load(code.word(table, _offset(self.layout, f"{self.name}_{field}")))
        word.set_metadata("invariant.load", code.builder.module.add_metadata([]))
        return word

    def items(self, code: _Code, table: int) -> Any:
        """How many there are; ``table``: which argument tells of them."""
        return self._load(code, table, "items")

    def place(self, code: _Code, table: int, index: Any) -> Any:
        """A pointer to one of them."""
        first = code.builder.inttoptr(self._load(code, table, "at"), _BYTE.as_pointer())
        return code.builder.gep(first, [code.builder.mul(index, _WORD(self.item.itemsize))], inbounds=True)

    def seen(self, code: _Code, kind: Layout, dimensions: int) -> Any:
        """The array, or its beginning, of the shape that the arguments after the table give."""
        shape = [code.whole(1 + n) for n in range(dimensions)]
        wanted = code.builder.mul(shape[0], shape[1]) if dimensions == 2 else shape[0]
        held = code.builder.mul(self.items(code, 0), _WORD(self.item.itemsize // kind.itemsize))
        code.refuse(code.builder.icmp_unsigned(">", wanted, held), f"more items than '{self.name}' has")
        return code.array(self.place(code, 0, _WORD(0)), shape, kind)
