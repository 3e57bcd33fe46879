"""Missing entries of a measured cost table: estimated from those given, with the error of leaving one out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PlatformError
from eunomia.hardware.entries import Entries
from eunomia.hardware.vector import simple_elements
from eunomia.workload.model import DnnModel, Layer

Mask = npt.NDArray[np.bool_]
Way = Callable[[Ints, Floats], Floats]  # given rows and their times -> estimates of all rows
FEATURES = ("MACs", "operations", "elements moved", "a constant")


@dataclass(frozen=True)
class Filled:
    """What of a type's column was given, and how the rest was found. Errors are relative: 0.1 is 10 %.

    ``errors``: of each given shape, when it is estimated from the others. ``total``: of their sum. ``unseen``: kinds
    of layers that were estimated although no layer of the kind was given; the errors say nothing of them.
    """

    type: str
    given: int
    copied: int  # the same shape was given elsewhere
    estimated: int
    how: str = ""
    errors: tuple[float, ...] = ()
    total: float = math.nan
    unseen: tuple[str, ...] = ()
    has_bytes: bool = True  # without DRAM bytes its layers neither slow others nor are slowed

    def sentence(self) -> str:
        """How far the column is measured, and how far to trust the rest."""
        alone = "" if self.has_bytes else "; no dram_bytes are given: its layers do not contend for bandwidth"
        return self._said() + alone

    def _said(self) -> str:
        said = f"costs of '{self.type}': {self.given} layer{'s' * (self.given != 1)} given"
        if self.copied:
            said += f", {self.copied} of equal shape"
        if not self.estimated:
            return said
        said += f", {self.estimated} estimated by {self.how}"
        if not self.errors:
            return f"{said}; too few were given to say how wrong that is"
        said += (
            f"; error when each given shape is left out: median {100 * np.median(self.errors):.0f} %, "
            f"worst {100 * max(self.errors):.0f} %, of their sum {100 * self.total:+.0f} %"
        )
        return said + (f"; nothing was given of {', '.join(self.unseen)}" if self.unseen else "")


def fill(
    entries: Entries, column: int, layers: Sequence[Layer], modelled_s: Floats | None
) -> tuple[dict[str, Floats], Filled]:
    """A type's column without gaps, and how it came about. Raises PlatformError where no time is given at all.

    A shape that was given elsewhere is copied (the mean, if several). Others take the better of two estimates,
    judged by leaving one shape out: the type's own model (``modelled_s``) times the median ratio of given to
    modelled, or a non-negative sum over FEATURES with the least relative errors. Where all given layers of a kind
    cannot run, others of the kind cannot either. DRAM bytes follow the median per element, energy the median power.
    """
    kind = entries.types[column]
    compute_s, latency_s = entries.compute_s[:, column].copy(), entries.latency_s[:, column]
    given = ~np.isnan(compute_s)
    if not given.any():
        raise PlatformError(
            f"no time at all is given for '{kind}'; measure one layer at least, or leave the type out"
        )
    rest = {name: getattr(entries, name)[:, column].copy() for name in ("buffer_s", "dram_bytes", "energy_j")}
    size = features(layers)
    shapes = _shapes(layers)
    copied = _copy_equal(shapes, given, {"compute_s": compute_s, **rest})
    missing = np.isnan(compute_s)
    never = _never(layers, given, latency_s) & missing
    compute_s[never] = math.inf
    wanted = missing & ~never
    counts = (int(given.sum()), copied, int(missing.sum()))
    has_bytes = bool(rest["dram_bytes"][given].any())
    if not wanted.any():
        how = "kinds that cannot run" if never.any() else ""
        return {"compute_s": compute_s, **rest}, Filled(kind, *counts, how=how, has_bytes=has_bytes)
    finite = given & np.isfinite(latency_s)
    one = _first_of_each(shapes, finite)
    if not len(one):
        raise PlatformError(f"all layers given for '{kind}' cannot run there; give a time of another layer")
    times = np.array([latency_s[finite & (shapes == shapes[row])].mean() for row in one])
    how, guess, errors, total = _best(size, one, times, modelled_s)
    compute_s[wanted] = guess[wanted]
    rest["dram_bytes"][wanted] = size[wanted, 2] * _median(rest["dram_bytes"][one], size[one, 2])
    rest["energy_j"][wanted] = guess[wanted] * _median(rest["energy_j"][one], times)
    seen = {layers[row].kind for row in np.flatnonzero(given).tolist()}
    unseen = dict.fromkeys(
        layers[row].kind for row in np.flatnonzero(wanted).tolist() if layers[row].kind not in seen
    )
    return {"compute_s": compute_s, **rest}, Filled(
        kind, *counts, how, errors, total, tuple(unseen), has_bytes
    )


def features(layers: Sequence[Layer]) -> Floats:
    """(layers, FEATURES) sizes that times follow."""
    return np.array(
        [(layer.macs, layer.ops, sum(_elements(layer)), 1.0) for layer in layers], np.float64
    ).reshape(-1, len(FEATURES))


def fit(size: Floats, times: Floats) -> Floats:
    """Non-negative weights (FEATURES,) of the sum with the least squared relative errors.

    All subsets of features are tried, fewer features than times: with one time, a multiple of one feature.
    """
    best, weights = math.inf, np.zeros(size.shape[1])
    most = max(1, min(size.shape[1], len(times) - 1))
    for count in range(1, most + 1):
        for subset in itertools.combinations(range(size.shape[1]), count):
            columns = list(subset)
            relative = size[:, columns] / times[:, None]
            if not relative.any(axis=0).all():
                continue
            found, *_ = np.linalg.lstsq(relative, np.ones(len(times)), rcond=None)
            error = float(((relative @ found - 1.0) ** 2).sum())
            if (found >= 0.0).all() and error < best - 1e-12:
                best = error
                weights = np.zeros(size.shape[1])
                weights[columns] = found
    return weights


def _best(
    size: Floats, one: Ints, times: Floats, modelled_s: Floats | None
) -> tuple[str, Floats, tuple[float, ...], float]:
    """Name, estimates of all rows, errors of leaving each shape out, and of their sum; the lesser median error wins."""
    least = float(times.min()) / 100.0  # nobody takes no time
    ways: dict[str, Way] = {"size": lambda rows, seconds: np.maximum(size @ fit(size[rows], seconds), least)}
    if modelled_s is not None and np.isfinite(modelled_s).all():
        model_s = modelled_s
        ways["its model, scaled"] = lambda rows, seconds: model_s * np.median(seconds / model_s[rows])
    found = []
    for name, estimate in ways.items():
        others = [np.delete(np.arange(len(one)), n) for n in range(len(one))] if len(one) > 1 else []
        left_out = np.array([estimate(one[rest], times[rest])[one[n]] for n, rest in enumerate(others)])
        errors = np.abs(left_out / times - 1.0) if others else np.zeros(0)
        total = float(left_out.sum() / times.sum() - 1.0) if others else math.nan
        found.append((float(np.median(errors)) if others else 0.0, name, errors, total))
    _, name, errors, total = min(reversed(found), key=lambda entry: entry[0])  # equal: the model
    return name, ways[name](one, times), tuple(errors.tolist()), total


def _elements(layer: Layer) -> tuple[int, int, int]:
    """Elements read, of parameters, and written."""
    if layer.has_macs:
        return layer.input_elements + layer.operand_elements, layer.weight_elements, layer.output_elements
    return simple_elements(layer)


def _shapes(layers: Sequence[Layer]) -> Ints:
    """(layers,) equal numbers for equal shapes."""
    known: dict[tuple[object, ...], int] = {}
    return np.array([known.setdefault(layer.shape_key(), len(known)) for layer in layers], np.int64)


def _copy_equal(shapes: Ints, given: Mask, columns: dict[str, Floats]) -> int:
    """Fill rows whose shape is given elsewhere; how many."""
    copied = 0
    for row in np.flatnonzero(~given):
        same = given & (shapes == shapes[row])
        if same.any():
            copied += 1
            for values in columns.values():
                values[row] = values[same].mean()
    return copied


def _never(layers: Sequence[Layer], given: Mask, latency_s: Floats) -> Mask:
    """(layers,) whether layers of the kind are given and none of them can run."""
    kinds = np.array([layer.kind for layer in layers])
    never = [
        kind for kind in dict.fromkeys(kinds[given]) if np.isinf(latency_s[given & (kinds == kind)]).all()
    ]
    return np.isin(kinds, never)


def _first_of_each(shapes: Ints, rows: Mask) -> Ints:
    """The first of these rows of each shape."""
    found = np.flatnonzero(rows)
    return np.sort(found[np.unique(shapes[found], return_index=True)[1]])


def _median(values: Floats, per: Floats) -> float:
    return float(np.median(values / per)) if len(values) and values.any() else 0.0


def all_layers(models: Sequence[DnnModel]) -> list[Layer]:
    """The rows of a cost table."""
    return [layer for model in models for layer in model.layers]
