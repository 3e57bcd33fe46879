"""Two workers whose networks fight for memory bandwidth: at will, behind a gate, and as a measured slowdown says.

Each worker has a core and alternates a network of convolutions with one that streams its weights from memory. Behind
the gate, one of them streams at a time. The slowdown of streaming beside streaming, measured in the same rounds, is
what a slowdown matrix has. Above 1.5, taking turns promises the lesser mean completion time (1 + 2 against 2 s), and
the gate is shut. Rounds hold all of it, in an order that turns around: what disturbs the machine meets all alike.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.atomic import write_text
from eunomia.core.errors import ConfigError
from eunomia.metrics.statistics import Estimate, bootstrap
from eunomia.report.charts import bars
from eunomia.report.table import Table
from eunomia.sharing.corun.crew import busy_s
from eunomia.sharing.corun.pair import Pair
from eunomia.sharing.shares.program import must_be_supported
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

PARTS = ("heavy alone", "heavy beside heavy", "at will", "gate")  # of a round, and back
SHUT = 1.5  # a slowdown above it shuts the gate
FEWEST = 4  # rounds
ROWS, WIDTH, LAYERS = 1, 4096, 3  # of the streaming network: 64 MiB of weights a layer


@dataclass(frozen=True)
class GateStudy:
    """``light``, ``heavy``: ONNX files; None = made. ``block_s``: of each part of a round; ``budget_s``: of all."""

    light: Path | None = None
    heavy: Path | None = None
    block_s: float = 1.0
    budget_s: float = 200.0

    def __post_init__(self) -> None:
        if not (0.05 <= self.block_s <= 60.0 and self.budget_s > 0.0):
            raise ConfigError(
                f"blocks of {self.block_s} s within {self.budget_s} s; 0.05 to 60 s, within more than 0"
            )


Block = dict[str, float]  # seconds per iteration of both workers, and the part of the time that others took


@dataclass(frozen=True, repr=False)
class Gated(Result):
    """All rounds: part -> its two blocks of each round."""

    study: GateStudy
    rounds: tuple[dict[str, tuple[Block, Block]], ...]
    spent_s: float

    @property
    def title(self) -> str:
        """How much there is."""
        return f"gate on memory bandwidth, measured: {len(self.rounds)} rounds in {self.spent_s:.0f} s"

    def log_ratios(self, part: str, over: str) -> list[float]:
        """Per round: log of the seconds per iteration of one part over another's."""
        return [_mean_log(one[part]) - _mean_log(one[over]) for one in self.rounds]

    def estimates(self) -> dict[str, Estimate]:
        """Slowdown of streaming, and time per iteration of gate and of the slowdown's choice over that at will."""
        slow, gate = self.log_ratios("heavy beside heavy", "heavy alone"), self.log_ratios("gate", "at will")
        chosen = [g if math.exp(s) > SHUT else 0.0 for s, g in zip(self._known(slow), gate, strict=True)]
        found = {"heavy beside heavy / alone": slow, "gate / at will": gate, "by slowdown / at will": chosen}
        return {name: _geometric(values) for name, values in found.items()}

    @staticmethod
    def _known(slow: Sequence[float]) -> list[float]:
        """What was known of the slowdown when each round began: the mean of those before, at first of the round."""
        return [float(np.mean(slow[:n])) if n else slow[0] for n in range(len(slow))]

    def table(self, short: bool = False) -> Table:
        """A line per ratio."""
        rows = [
            (name, f"{e.mean:.3f} [{e.low:.3f}, {e.high:.3f}]", f"{e.n}")
            for name, e in self.estimates().items()
        ]
        return Table(("time per iteration", "ratio", "rounds"), tuple(rows), left=1)

    def footnotes(self) -> list[str]:
        """How to read it."""
        return [
            "geometric mean over rounds, 95 % bootstrap interval; 'by slowdown': the gate is shut where the slowdown "
            f"of the rounds before is above {SHUT:g}"
        ]

    def sentences(self) -> list[str]:
        """What follows, and how quiet the machine was."""
        found = self.estimates()
        slow, gate = found["heavy beside heavy / alone"], found["gate / at will"]
        effect = (
            "loses" if gate.low > 1.0 else "gains" if gate.high < 1.0 else "makes no difference that shows"
        )
        lost = float(np.mean([b["lost"] for r in self.rounds for blocks in r.values() for b in blocks]))
        return [
            f"streaming beside streaming takes {slow.mean:.2f} times as long; the gate {effect}",
            f"other programs took {lost:.1%} of the two cores",
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A bar per ratio."""
        bars(axes, self.estimates(), "ratio")

    def rows(self) -> list[Row]:
        """One per ratio."""
        return [
            {"ratio": name, "mean": e.mean, "low": e.low, "high": e.high, "rounds": e.n}
            for name, e in self.estimates().items()
        ]


def run_gate(study: GateStudy, folder: Path, on_round: Callable[[int], None] | None = None) -> Gated:
    """Rounds until the budget is spent, at least FEWEST; networks, lock and ``gate.json``, all rounds, in ``folder``.

    Raises ConfigError for fewer than two cores.
    """
    must_be_supported()
    cores = sorted(os.sched_getaffinity(0))[-2:]
    if len(cores) < 2:
        raise ConfigError(f"two workers need two cores; this program may use {len(cores)}")
    folder.mkdir(parents=True, exist_ok=True)
    light, heavy = study.light or _made(folder / "light.onnx"), study.heavy or _made(folder / "heavy.onnx")
    began_s = time.monotonic()
    rounds: list[dict[str, tuple[Block, Block]]] = []
    with Pair((str(light), str(heavy), str(folder / "gate.lock"))) as pair:
        while len(rounds) < FEWEST or time.monotonic() - began_s < study.budget_s:
            blocks: dict[str, list[Block]] = {part: [] for part in PARTS}
            for part in (*PARTS, *PARTS[::-1]):
                blocks[part].append(_block(pair, part, cores, study.block_s))
            rounds.append({part: (first, second) for part, (first, second) in blocks.items()})
            write_text(folder / "gate.json", json.dumps(rounds) + "\n")
            if on_round is not None:
                on_round(len(rounds))
    return Gated(study, tuple(rounds), time.monotonic() - began_s)


def _block(pair: Pair, part: str, cores: Sequence[int], seconds: float) -> Block:
    what, count = ("heavy" if part.startswith("heavy") else "both"), 1 if part == "heavy alone" else 2
    before = busy_s(cores[:count])
    answers = pair.run(cores[:count], {"seconds": seconds, "what": what, "gate": part == "gate"})
    busy = busy_s(cores[:count]) - before - sum(one["cpu_s"] for one in answers)
    per_iteration = [one["wall_s"] / max(one["iterations"], 1) for one in answers]
    return {
        "s": float(np.exp(np.mean(np.log(per_iteration)))),
        "lost": min(1.0, max(0.0, busy) / (count * seconds)),
    }


def _mean_log(blocks: tuple[Block, Block]) -> float:
    return float(np.mean([math.log(block["s"]) for block in blocks]))


def _geometric(logs: list[float]) -> Estimate:
    found = bootstrap(logs, np.random.default_rng(0), resamples=2000)
    return Estimate(math.exp(found.mean), math.exp(found.low), math.exp(found.high), found.n)


def _made(path: Path) -> Path:
    """A network of 3 x 3 convolutions that stay in the cache, or of matrices that do not."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    heavy, rng = path.stem == "heavy", np.random.default_rng(0)
    shape, size = ([ROWS, WIDTH], (WIDTH, WIDTH)) if heavy else ([1, 64, 28, 28], (64, 64, 3, 3))
    nodes, weights = [], []
    for n in range(LAYERS if heavy else 6):
        weights.append(numpy_helper.from_array(rng.normal(0.0, 0.02, size).astype(np.float32), f"w{n}"))
        names = [f"x{n}", f"w{n}"], [f"x{n + 1}"]
        conv = helper.make_node("Conv", *names, pads=[1, 1, 1, 1])
        nodes.append(helper.make_node("MatMul", *names) if heavy else conv)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x0", f"x{len(nodes)}")
    ]
    graph = helper.make_graph(nodes, path.stem, ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path))
    return path
