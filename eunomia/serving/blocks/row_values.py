"""What is known of a tensor of a graph when it is asked whether rows are answered one by one (``rowwise``).

Sizes are products of whole numbers and names: of the number of rows, and of other sizes, which are those of every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

ROWS = "rows"
AT_MOST = " or less, of "  # in names of sizes
_numbers = count()


class Unproven(Exception):
    """Why nothing is known of what an operator gives."""


@dataclass(frozen=True)
class Size:
    """``factor`` times all the ``names``, in order.

    ``before``: of an axis with the rows, if these are not the first of its parts: it is so many times all rows.
    """

    factor: int = 1
    names: tuple[str, ...] = ()
    before: Size | None = None

    @property
    def grows(self) -> bool:
        """Whether it depends on the number of rows."""
        return ROWS in self.names

    def __mul__(self, other: Size) -> Size:
        factor = self.factor * other.factor
        return Size(factor, tuple(sorted((*self.names, *other.names))) if factor else ())

    def over(self, other: Size) -> Size | None:
        """Divided, if that leaves no rest whatever the names stand for."""
        names = [*self.names]
        for name in other.names:
            if name not in names:
                return None
            names.remove(name)
        if other.factor == 0 or self.factor % other.factor:
            return None
        return Size(self.factor // other.factor, tuple(names))


Entry = Size | None  # a whole number, or one that nobody knows
ONE, ZERO = Size(), Size(0)
ALL_ROWS = Size(1, (ROWS,))


def some() -> Size:
    """The same in every run, and otherwise unknown."""
    return Size(1, (f"size {next(_numbers)}",))


def capped(length: int, name: str) -> Size:
    """The size of this name, but at most so long; ``length``: at least 1."""
    return Size(1, (f"{length}{AT_MOST}{name}",))


def product(sizes: Iterable[Size]) -> Size:
    """Of all of them."""
    return reduce(Size.__mul__, sizes, ONE)


@dataclass(frozen=True)
class Value:
    """A tensor. ``rows``: the axis along which the inputs' rows lie, each of which follows from its own row alone.

    That axis may be longer by a factor, and then has all parts of a row one after the other, but for ``Size.before``.
    None: nothing of it follows from what the inputs hold. ``entries``: of whole numbers on one axis or none, where None
    is a number that nobody knows. Such as have the number of rows among them are good for shapes alone.
    """

    sizes: tuple[Size, ...]
    rows: int | None = None
    entries: tuple[Size | None, ...] | None = None

    @property
    def counts(self) -> bool:
        """Whether its entries depend on the number of rows."""
        return self.entries is not None and any(entry is not None and entry.grows for entry in self.entries)

    @property
    def fixed(self) -> bool:
        """Whether it is the same for any rows."""
        return self.rows is None and not self.counts

    @property
    def rank(self) -> int:
        """How many axes."""
        return len(self.sizes)

    def without_entries(self) -> Value:
        """Where only its sizes matter."""
        return replace(self, entries=None)


def sound(value: Value) -> Value:
    """The same; raises Unproven unless the number of rows shows in its rows' axis, once, and nowhere else."""
    for axis, size in enumerate(value.sizes):
        if size.names.count(ROWS) != (axis == value.rows):
            raise Unproven("its result does not have the inputs' rows along one axis")
    if value.entries is not None and (value.rank > 1 or value.rows is not None):
        return value.without_entries() if not value.counts else _lost()
    return value


def _lost() -> Value:
    raise Unproven("it works with the number of rows")


def axis_of(axis: int, rank: int) -> int:
    """Counted from the front; raises Unproven where there is none."""
    if not -rank <= axis < rank:
        raise Unproven(f"it names axis {axis} of {rank}")
    return axis % rank


def broadcast(values: Sequence[Value]) -> Value:
    """What comes of them entry by entry, with NumPy's rules; raises Unproven where it mixes rows."""
    rank = max(value.rank for value in values)
    places = {value.rank - value.rows for value in values if value.rows is not None}  # from the end
    if len(places) > 1:
        raise Unproven("rows of its inputs lie along different axes")
    place = next(iter(places), 0)
    sizes = []
    for behind in range(rank, 0, -1):
        there = [value.sizes[-behind] for value in values if value.rank >= behind]
        if behind == place:
            _must_match(values, place)
            there = [value.sizes[-behind] for value in values if value.rows is not None]
        sizes.append(_joined(there))
    return Value(tuple(sizes), rank - place if place else None)


def _must_match(values: Sequence[Value], place: int) -> None:
    """All have the same rows there, or one entry for all; raises Unproven."""
    lengths = {value.sizes[-place] for value in values if value.rows is not None}
    others = {value.sizes[-place] for value in values if value.rows is None and value.rank >= place}
    if len(lengths) > 1:
        raise Unproven("its inputs have different numbers of entries for each row")
    if others - {ONE}:
        raise Unproven("one of its inputs has entries of its own for some rows")


def _joined(there: Iterable[Size]) -> Size:
    longer = {size for size in there if size != ONE}
    longer -= {size for size in longer if any(_is_capped(size, other) for other in longer)}
    if len(longer) > 1:
        if any(size.grows for size in longer):
            raise Unproven("its result may have the number of rows along another axis")
        return some()
    return next(iter(longer), ONE)


def _is_capped(size: Size, other: Size) -> bool:
    """Whether it is the least of ``other`` and some length."""
    return (
        size.factor == 1
        and len(size.names) == 1
        and size.names[0].partition(AT_MOST)[2:] == other.names
        and (other.factor == 1)
    )


def without(value: Value, axes: Iterable[int]) -> Value:
    """The same without some axes; raises Unproven where rows lie along one."""
    gone = {*axes}
    if value.rows in gone:
        raise Unproven("it joins rows, or takes their axis away")
    sizes = tuple(size for axis, size in enumerate(value.sizes) if axis not in gone)
    rows = None if value.rows is None else value.rows - sum(axis < value.rows for axis in gone)
    return Value(sizes, rows)


def along(value: Value, axes: Iterable[int], size: Size | None = None) -> Value:
    """The same after something that mixes entries along these axes, which have ``size`` then, or what they had.

    Raises Unproven where rows lie along one.
    """
    taken = {axis_of(axis, value.rank) for axis in axes}
    if value.rows in taken:
        raise Unproven("it mixes entries of several rows")
    if size is None:
        return value.without_entries()
    sizes = tuple(size if axis in taken else own for axis, own in enumerate(value.sizes))
    return Value(sizes, value.rows)


def regrouped(value: Value, sizes: Sequence[Size]) -> Value:
    """Its entries in the same order with other sizes; raises Unproven where rows do not lie along one axis then.

    Each row has its own entries if as many lie in front of the first row as before. As good is it if as many of a row
    lie side by side: one follows from the other, as there are as many in all, or the run fails.
    """
    found = next((axis for axis, size in enumerate(sizes) if size.grows), None)
    if value.rows is None and found is None:
        return Value(tuple(sizes))
    if value.rows is None or found is None:
        raise Unproven("nothing says that it leaves each row where it is")
    was, own = value.sizes[value.rows], sizes[found]
    front = product(value.sizes[: value.rows]) * (was.before or ONE)
    before = front.over(product(sizes[:found]))
    if before is None or own.over(before * ALL_ROWS) is None:
        beside = was.over((was.before or ONE) * ALL_ROWS)
        inside = None if beside is None else product((beside, *value.sizes[value.rows + 1 :]))
        part = None if inside is None else inside.over(product(sizes[found + 1 :]))
        before = None if part is None else own.over(part * ALL_ROWS)
    if before is None:
        raise Unproven("nothing says that it leaves each row where it is")
    own = replace(own, before=None if before == ONE else before)
    return Value((*sizes[:found], own, *sizes[found + 1 :]), found)


def whole(numbers: Iterable[int]) -> tuple[Size, ...]:
    """As sizes."""
    return tuple(Size(int(number)) for number in numbers)


def plain(size: Size) -> int | None:
    """Its number, if it has no names."""
    return None if size.names else size.factor
