"""How accelerators may share memory bandwidth: every contention model once, with what follows from its choice.

The rates of each model stand in kernel/contention.py, and written plainly in reference/rates.py; docs/engine.md has the
formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Contention = Literal[
    "none",
    "proportional",
    "max_min",
    "weighted",
    "moca_literal",
    "roofline",
    "roofline_proportional",
    "roofline_static",
]


@dataclass(frozen=True, slots=True)
class ContentionModel:
    """Facts of one model.

    ``described_as``: the model by which learned policies see it; None where no layer slows another. ``weighs``:
    priorities change rates. ``exceeds``: the grants may add up to more than the bandwidth.
    """

    described_as: Literal["proportional", "max_min", "weighted"] | None
    weighs: bool = False
    exceeds: bool = False


CONTENTION: dict[Contention, ContentionModel] = {  # in the order of the kernel's codes
    "none": ContentionModel(None, exceeds=True),
    "proportional": ContentionModel("proportional"),
    "max_min": ContentionModel("max_min"),
    "weighted": ContentionModel("weighted", weighs=True),
    "moca_literal": ContentionModel("weighted", weighs=True, exceeds=True),
    "roofline": ContentionModel("max_min"),
    "roofline_proportional": ContentionModel("proportional"),
    "roofline_static": ContentionModel(None),
}
