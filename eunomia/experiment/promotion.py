"""Whether a policy may take over a running server: judged on the server's own traffic, in its digital twin.

Both policies replay the recording. The candidate passes when it keeps every promise that the serving policy keeps,
and either keeps more of them, losing at most ``margin`` of the hit rate, or loses no hits.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.errors import ConfigError, RecordError
from eunomia.experiment.policy import CARD, RULES, PolicyLike, policy_name, resolve_policy
from eunomia.experiment.twin import Twin
from eunomia.inference.learning.training.episodes import Episode
from eunomia.inference.learning.training.objectives import TOLERANCE, gaps
from eunomia.inference.simulate import simulate_problem

LEAST = 200  # requests: with fewer, a replay says little


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a policy made of a recording. ``gap``: of every promised pair that had requests, above 0 = broken."""

    name: str
    hit_rate: float
    gap: npt.NDArray[np.float64]

    @property
    def attainment(self) -> float:
        """Share of promises kept; 1 without promises."""
        return float((self.gap <= TOLERANCE).mean()) if len(self.gap) else 1.0

    @property
    def worst(self) -> float:
        """The largest shortfall."""
        return float(np.maximum(self.gap, 0.0).max()) if len(self.gap) else 0.0

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "policy": self.name,
            "hit_rate": self.hit_rate,
            "attainment": self.attainment,
            "worst": self.worst,
        }


@dataclass(frozen=True)
class Verdict:
    """The gate's answer. ``why``: one sentence."""

    passed: bool
    why: str
    candidate: Replayed
    serving: Replayed
    requests: int

    def facts(self) -> dict[str, Any]:
        """As plain data: the evidence that is kept with a policy in service."""
        return {"passed": self.passed, "why": self.why, "requests": self.requests,
                "candidate": self.candidate.facts(), "serving": self.serving.facts()}  # fmt: skip


def replay(twin: Twin, policy: PolicyLike) -> Replayed:
    """A policy on the whole recording."""
    outcome = simulate_problem(twin.problem(), resolve_policy(policy), twin.options)
    hit_rate = float((outcome.results["outcome"] == 0).mean())
    return Replayed(
        policy_name(policy), hit_rate, gaps(outcome.results, Episode(twin.problem(), twin.options))
    )


def judge(twin: Twin, candidate: PolicyLike, serving: PolicyLike, margin: float = 0.05) -> Verdict:
    """Replay both and decide. Raises RecordError for a recording that is too short."""
    if len(twin.requests) < LEAST:
        raise RecordError(
            f"the recording holds {len(twin.requests)} requests; {LEAST} are needed to judge a policy by them"
        )
    new, old = replay(twin, candidate), replay(twin, serving)
    passed, why = _decide(new, old, margin)
    return Verdict(passed, why, new, old, len(twin.requests))


def _decide(new: Replayed, old: Replayed, margin: float) -> tuple[bool, str]:
    broken = int(((old.gap <= TOLERANCE) & (new.gap > TOLERANCE)).sum())
    if broken:
        return False, f"it breaks {broken} of the promises that '{old.name}' keeps"
    lost = old.hit_rate - new.hit_rate
    if new.attainment > old.attainment:
        if lost > margin:
            return (
                False,
                f"it keeps more promises but loses {lost:.1%} of the hit rate; {margin:.1%} are allowed",
            )
        return True, f"it keeps {new.attainment:.0%} of the promises, '{old.name}' {old.attainment:.0%}"
    if lost > 0.0:
        return False, f"it keeps no more promises and loses {_percent(lost)} of the hit rate"
    gain = "the same" if lost == 0.0 else f"{_percent(-lost)} higher"
    return True, f"it keeps as many promises, and its hit rate is {gain}"


def _percent(share: float) -> str:
    """With two decimals, or so many that it does not look like nothing."""
    return f"{share:.2%}" if share >= 5e-5 else f"{share * 100:.1g}%"


def files_of(policy: str) -> dict[str, bytes]:
    """The files that make up a card or rules; empty for a registered name. Raises ConfigError."""
    if not policy.endswith((CARD, RULES)):
        if ":" in policy:
            raise ConfigError(f"policy '{policy}' is code; only names and cards are sent to a running server")
        return {}
    path = Path(policy)
    paths = [path] if policy.endswith(RULES) else [path, path.with_suffix(".safetensors")]
    try:
        return {p.name: p.read_bytes() for p in paths}
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None


def write_served(answer: Mapping[str, Any], folder: Path) -> str:
    """The serving policy of a server's answer, as something that ``resolve_policy`` takes; files go to ``folder``."""
    for name, text in answer.get("files", {}).items():
        (folder / Path(name).name).write_bytes(base64.b64decode(text))
    source = str(answer["now"]["source"])
    return str(folder / Path(source).name) if answer["now"]["sha256"] else source
