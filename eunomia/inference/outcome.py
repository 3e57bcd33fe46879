"""What a run of the engine gives, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Records
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies.reasons import Reasons
from eunomia.inference.problem import Problem


@dataclass
class Outcome:
    """What the engine has to say after a run, as arrays; ``tables`` turns it into records."""

    problem: Problem
    options: EngineOptions
    results: Records  # (n,) RESULT
    subjobs: Records  # (layers run,) SUBJOB
    decisions: Records  # (layers started,) DECISION
    free_in_s: npt.NDArray[np.float64]  # (layers started, S)
    busy_s: npt.NDArray[np.float64]  # (S,)
    lanes: Records  # (S,) LANE
    estimate_s: npt.NDArray[np.float64]  # (rows, types) what the scheduler believed at the end
    end_s: float
    events: int  # layers completed
    rounds: int  # decision points
    saturated_s: float  # time with D > B
    bytes_moved: float
    wall_s: float
    reasons: Reasons | None = None  # of a policy that notes them
    decision_wall_s: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # stepped: per ask
