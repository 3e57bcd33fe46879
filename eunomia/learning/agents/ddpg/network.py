"""The actor's numbers, its forward pass in NumPy, and the block in which compiled code reads them.

LSTM, one layer of H units, gates in the order input, forget, cell, output (as PyTorch has them):

    (i, f, g, o) = x W + h U + b;  c <- s(f) c + s(i) tanh(g);  h <- s(o) tanh(c);  a = tanh(h V + v)

s is the logistic function; x (F,) one sub-job, a (1 + S,) its priority and its score on every accelerator. The order of
sub-jobs matters: what comes later in the list does not change what came before (one direction only).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.ddpg.table import inputs

Floats = npt.NDArray[np.float64]
MOST_UNITS = 512

# Head of the block.
(LANES, UNITS, PROMISES, LAYER_S, HOLD, MODE, KEEP, NOISE_USED) = range(8)
COUNTERS = 8
COUNTED = ("ticks", "subjobs", "held", "invalid", "logged_ticks", "logged_rows")
(TICKS, SUBJOBS, HELD, INVALID, LOGGED_TICKS, LOGGED_ROWS) = range(len(COUNTED))
WEIGHTS = COUNTERS + len(COUNTED)


@dataclass(frozen=True, eq=False)
class Actor:
    """The trained numbers. ``x``: (F, 4 H), ``h``: (H, 4 H), ``bias``: (4 H,), ``out``: (H, 1 + S), ``out_bias``."""

    lanes: int
    promises: bool
    x: Floats
    h: Floats
    bias: Floats
    out: Floats
    out_bias: Floats

    def __post_init__(self) -> None:
        if not 1 <= self.units <= MOST_UNITS:
            raise ConfigError(f"an LSTM of {self.units} units; give 1 to {MOST_UNITS}")
        for name, shape in self.shapes(self.lanes, self.units, self.promises).items():
            value = getattr(self, name)
            if value.shape != shape:
                raise ConfigError(f"weights '{name}' have shape {value.shape}; this LSTM needs {shape}")
            if not np.isfinite(value).all():
                raise ConfigError(
                    f"weights '{name}' hold a value that is not a finite number; train it again"
                )

    @property
    def units(self) -> int:
        """H."""
        return self.h.shape[0] if self.h.ndim == 2 else 0

    @staticmethod
    def shapes(lanes: int, units: int, promises: bool) -> dict[str, tuple[int, ...]]:
        """Tensors by name, in the order of the block."""
        return {"x": (inputs(lanes, promises), 4 * units), "h": (units, 4 * units), "bias": (4 * units,),
                "out": (units, 1 + lanes), "out_bias": (1 + lanes,)}  # fmt: skip

    def tensors(self) -> dict[str, Floats]:
        """All tensors by name."""
        return {name: getattr(self, name) for name in ("x", "h", "bias", "out", "out_bias")}

    def __call__(self, rows: Floats) -> Floats:
        """(n, F) sub-jobs in order -> (n, 1 + S) actions."""
        hidden, cell, actions = np.zeros(self.units), np.zeros(self.units), []
        for row in rows:
            i, f, g, o = np.split(row @ self.x + hidden @ self.h + self.bias, 4)
            cell = _logistic(f) * cell + _logistic(i) * np.tanh(g)
            hidden = _logistic(o) * np.tanh(cell)
            actions.append(np.tanh(hidden @ self.out + self.out_bias))
        return np.array(actions).reshape(len(rows), 1 + self.lanes)

    def pack(self, hold: float) -> Floats:
        """The block: head, counters, weights. ``hold``: sub-jobs of lower priority are not queued."""
        parts = [tensor.ravel() for tensor in self.tensors().values()]
        block = np.concatenate([np.zeros(WEIGHTS), *parts])
        block[LANES], block[UNITS], block[PROMISES] = self.lanes, self.units, float(self.promises)
        block[HOLD], block[LAYER_S] = hold, 1.0
        return block


def _logistic(value: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-value))
