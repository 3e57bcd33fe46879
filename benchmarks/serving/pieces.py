"""Pieces of a long measurement, kept until it is complete, so that a run that was cut off can go on.

``--resume`` goes on with what is there; without it a run starts anew. Pieces lie in the folder of the optimised
networks.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from benchmarks.serving.live import CACHE

T = TypeVar("T")


class Pieces:
    """One file of finished pieces, one line each: key and value."""

    def __init__(self, name: str, *, resume: bool) -> None:
        self._path = CACHE / f"{name}.pieces.jsonl"
        self._known: dict[str, Any] = {}
        if resume and self._path.exists():
            self._known = dict(json.loads(line) for line in self._path.read_text().splitlines())
        elif self._path.exists():
            self._path.unlink()

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def do(self, key: str, kind: type[T], make: Callable[[], T]) -> T:
        """The piece under this key, a ``kind``, measured now unless it is there."""
        if key not in self._known:
            value = make()
            self._known[key] = json.loads(json.dumps(asdict(value), default=_plain))  # type: ignore[call-overload]
            CACHE.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps([key, self._known[key]]) + "\n")
        return typing.cast(T, revived(kind, self._known[key]))

    def finish(self) -> None:
        """Everything is measured; the next run starts anew."""
        self._path.unlink(missing_ok=True)


def revived(kind: Any, value: Any) -> Any:
    """A value of JSON as what it was: dataclasses, tuples, lists and arrays of numbers."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        kinds = typing.get_type_hints(kind)
        return kind(**{f.name: revived(kinds[f.name], value[f.name]) for f in fields(kind)})  # type: ignore[operator]
    if origin is np.ndarray:
        return np.array(value, np.float64)
    if origin is tuple:
        return tuple(revived(inside[0], one) for one in value)
    if origin is list:
        return [revived(inside[0], one) for one in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)
