"""Whether a policy may take over a running server: judged on the server's own traffic, in its digital twin.

Both policies replay the recording. The candidate must meet every SLO that the serving policy meets. It passes
if it meets more SLOs, losing at most ``margin`` of the hit rate, or gains hits. A recording in which nobody
waited lets every policy look as good as the other: a gain within its own 95 % interval is called equal, and
passes only for who allows that.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints, Records
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, EunomiaError, RecordError
from eunomia.inference.kernel.layout import DROPPED, HIT, LATE
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.objectives import WORST, gaps, promised
from eunomia.metrics.indicators import TOLERANCE
from eunomia.study.inference.policy import CARD, RULES, PolicyLike, policy_name, resolve_policy
from eunomia.study.serving.replay import Replay
from eunomia.study.serving.replay_clients import Told
from eunomia.study.serving.twin import Twin
from eunomia.study.serving.twin_part import latest

FAR_HITS, ENOUGH = 0.02, 20  # from here on a replay is called off; requests of a pair
SHOWN = 5  # names in a sentence
LEAST = 200  # requests: with fewer, a replay says little
STRETCHES, T_95 = 20, 2.093  # consecutive parts of a recording; Student's t of 19 degrees of freedom
NO_CODE = (
    "a function cannot be promoted: only registered names, checkpoints (.json) and rules (.toml) can be sent"
)


class NotPassed(RecordError):
    """A policy that was judged and does not pass, or a recording too short to judge by."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a policy made of a recording. ``gap``: of every pair with an SLO that had requests, above 0 = not met.

    ``hit`` (n,): of every request, in order of arrival.
    """

    name: str
    hit_rate: float
    gap: npt.NDArray[np.float64]
    hit: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    @property
    def attainment(self) -> float:
        """SLO attainment; 1 without SLOs."""
        return float((self.gap <= TOLERANCE).mean()) if len(self.gap) else 1.0

    @property
    def worst(self) -> float:
        """The largest shortfall."""
        return float(np.maximum(self.gap, 0.0).max()) if len(self.gap) else 0.0

    def facts(self) -> Data:
        """As plain data."""
        return {
            "policy": self.name,
            "hit_rate": self.hit_rate,
            "attainment": self.attainment,
            "worst": self.worst,
        }


@dataclass(frozen=True)
class Verdict:
    """The gate's answer. ``why``: one sentence. ``equal``: the recording cannot tell the two apart.

    ``doubt``: where the replay of the policy that served is far from what was recorded; empty = nowhere.
    """

    passed: bool
    equal: bool
    why: str
    candidate: Replayed
    serving: Replayed
    requests: int
    doubt: str = ""

    def facts(self) -> Data:
        """As plain data: the evidence that is kept with a policy in service."""
        return {"passed": self.passed, "equal": self.equal, "why": self.why, "requests": self.requests,
                "candidate": self.candidate.facts(), "serving": self.serving.facts()}  # fmt: skip


def replay(twin: Twin, policy: PolicyLike) -> Replayed:
    """A policy on the recording."""
    episode = Episode(twin.problem(), twin.options)
    if twin.server is None:
        results = _simulated(twin, policy)
        gap = gaps(results, episode)
    else:
        run = Replay(twin, policy)
        told = run.play()
        every = _records(twin, told)
        results = every[run.places(told)]
        gap = gaps(results, episode)
        _be_stricter(gap, every, twin.requests.pair[told.number], episode, run.waiting)
    hit = results["outcome"] == HIT
    return Replayed(policy_name(policy), float(hit.mean()), gap, hit)


def _records(twin: Twin, told: Told) -> Records:
    """(m,): as the engine gives them, the first request at time 0."""
    found = np.zeros(len(told.number), [("outcome", "i8"), ("arrival_s", "f8"), ("finish_s", "f8")])
    sent_s = told.arrival_s - twin.reach_s[told.number]
    found["arrival_s"] = sent_s - sent_s.min()
    found["finish_s"] = found["arrival_s"] + told.response_s
    found["outcome"] = np.where(told.hit, HIT, np.where(np.isnan(told.response_s), DROPPED, LATE))
    return found


def _be_stricter(gap: Floats, every: Records, pairs: Ints, episode: Episode, waiting: Sequence[int]) -> None:
    """Throughput that pairs were promised whose clients wait: a slow policy has fewer requests of theirs.

    ``every``, ``pairs`` (m,): all that was sent in the replay.
    """
    jobs, count = episode.problem.jobs, np.bincount(episode.problem.jobs.pair)
    asked = [p for p in np.flatnonzero(jobs.slo_kind >= 0).tolist() if p < len(count) and count[p]]
    for place, pair in enumerate(asked):
        slo, mine = promised(jobs, pair), every[pairs == pair]
        length_s = float(np.nanmax([mine["arrival_s"].max(), np.nanmax(mine["finish_s"], initial=0.0)]))
        if pair in waiting and slo.kind == "throughput" and length_s > 0.0:
            gap[place] = min(slo.gap(int(np.isfinite(mine["finish_s"]).sum()) / length_s), WORST)


def _simulated(twin: Twin, policy: PolicyLike) -> Records:
    return simulate_problem(twin.problem(), resolve_policy(policy), twin.options).results


def judge(
    twin: Twin,
    candidate: PolicyLike,
    serving: PolicyLike,
    margin: float = 0.05,
    *,
    even_if_equal: bool = False,
    by: Callable[[Twin, PolicyLike], Replayed] = replay,
) -> Verdict:
    """Replay both on the latest requests and decide. Raises NotPassed for a recording that is too short.

    ``by``: how one is replayed.
    """
    if len(twin.requests) < LEAST:
        raise NotPassed(
            f"the recording holds {len(twin.requests)} requests; {LEAST} are needed to judge a policy by them"
        )
    twin = latest(twin)
    new, old = by(twin, candidate), by(twin, serving)
    passed, equal, why = _decide(new, old, margin, even_if_equal=even_if_equal)
    doubt = _doubt(twin, old.hit) if policy_name(serving) == policy_name(twin.policy) else ""
    return Verdict(passed, equal, why, new, old, len(twin.requests), doubt)


def _doubt(twin: Twin, hit: npt.NDArray[np.bool_]) -> str:
    """The pair whose hits under the policy that served are farthest from the recorded ones, in words."""
    apart = [
        (abs(float(hit[mine].mean() - twin.hit[mine].mean())), number)
        for number in range(len(twin.requests.agreements))
        if (mine := twin.requests.pair == number).sum() >= ENOUGH
    ]
    points, number = max(apart, default=(0.0, 0))
    if points <= FAR_HITS:
        return ""
    pair, mine = twin.requests.agreements[number], twin.requests.pair == number
    return (
        f"the twin is off for '{pair.tenant:.50}, {pair.model:.50}': hits {twin.hit[mine].mean():.1%} recorded, "
        f"{hit[mine].mean():.1%} replayed under the policy that served"
    )


def differs(twin: Twin, devices: Sequence[str], networks: Sequence[str], tenants: Sequence[str]) -> str:
    """In a sentence, what a recording has that a server with these names has not; empty = nothing."""
    pairs = twin.requests.agreements
    kinds = (
        ("device", twin.table.types, devices),
        ("network", [pair.model for pair in pairs], networks),
        ("tenant", [pair.tenant for pair in pairs], tenants),
    )
    found = [(kind, sorted(set(recorded) - set(there))) for kind, recorded, there in kinds]
    found.append(("no device", sorted(set(devices) - set(twin.table.types))))
    strange = [f"{kind} {_some(names)}" for kind, names in found if names]
    if not strange:
        return ""
    return (
        f"the recording is of another server than this one: it has {'; '.join(strange)}; the verdict is for that "
        "server's devices and traffic: without --recording, this one's own traffic judges"
    )


def _some(names: Sequence[str]) -> str:
    """The first few."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"'{name:.50}'" for name in names[:SHOWN]) + more


def interval(new: Replayed, old: Replayed) -> float:
    """Half the 95 % interval of the difference of two hit rates on the same requests.

    From the differences of ``STRETCHES`` consecutive parts, since requests that wait for each other hit or miss
    together; t * s / sqrt(parts). 0 where not one request fares differently.
    """
    change = new.hit.astype(float) - old.hit
    if len(change) < STRETCHES:
        return 0.0
    means = np.array([part.mean() for part in np.array_split(change, STRETCHES)])
    return float(T_95 * means.std(ddof=1) / np.sqrt(STRETCHES))


def _decide(
    new: Replayed, old: Replayed, margin: float, *, even_if_equal: bool = False
) -> tuple[bool, bool, str]:
    """Whether it passes, whether the two are equal as far as the recording goes, and why."""
    broken = int(((old.gap <= TOLERANCE) & (new.gap > TOLERANCE)).sum())
    if broken:
        return False, False, f"it misses {broken} of the SLOs that '{old.name}' meets"
    lost = old.hit_rate - new.hit_rate
    if new.attainment > old.attainment:
        if lost > margin:
            why = f"its SLO attainment is higher but it loses {lost:.1%} of the hit rate; {margin:.1%} are allowed"
            return False, False, why
        kept = f"its SLO attainment is {new.attainment:.0%}, that of '{old.name}' {old.attainment:.0%}"
        return True, False, kept
    if lost > 0.0:
        return False, False, f"its SLO attainment is not higher and it loses {_percent(lost)} of the hit rate"
    if -lost <= interval(new, old):
        return even_if_equal, True, _equal(new, old)
    return True, False, f"its SLO attainment is equal, and its hit rate is {_percent(-lost)} higher"


def _equal(new: Replayed, old: Replayed) -> str:
    apart = int((new.hit != old.hit).sum())
    fare = f"{apart} of {len(new.hit)} requests fare" if apart else "not one request fares"
    return (
        f"the recording cannot tell it from '{old.name}': equal SLO attainment, hit rates {new.hit_rate:.2%} and "
        f"{old.hit_rate:.2%}, {fare} differently; nothing in this traffic speaks for it"
    )


def _percent(share: float) -> str:
    """With two decimals, or so many that it does not look like nothing."""
    return f"{share:.2%}" if share >= 5e-5 else f"{share * 100:.1g}%"


def refuse_code(policy: str) -> None:
    """Before it is imported. Raises ConfigError."""
    if policy.endswith(".py") or (":" in policy and not policy.endswith((CARD, RULES))):
        raise ConfigError(f"'{policy}': {NO_CODE}")


def files_of(policy: str) -> dict[str, bytes]:
    """The files that make up a card or rules; empty for a registered name. Raises ConfigError."""
    refuse_code(policy)
    if not policy.endswith((CARD, RULES)):
        return {}
    path = Path(policy)
    paths = [path] if policy.endswith(RULES) else [path, path.with_suffix(".safetensors")]
    try:
        return {p.name: p.read_bytes() for p in paths}
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None


def write_served(answer: Data, folder: Path) -> str:
    """The serving policy of a server's answer, as something that ``resolve_policy`` takes; files go to ``folder``.

    Raises ConfigError when the server has it in a file of its own: a server names no code to run here.
    """
    for name, text in answer.get("files", {}).items():
        (folder / Path(name).name).write_bytes(base64.b64decode(text))
    source = str(answer["now"]["source"])
    if not answer["now"]["sha256"] and not _registered(source):
        raise ConfigError(
            f"the server's policy '{source:.100}' is in a file of its own; say what to judge against: --against NAME"
        )
    return str(folder / Path(source).name) if answer["now"]["sha256"] else source


def _registered(name: str) -> bool:
    if ":" in name or name.endswith((".py", CARD, RULES)):
        return False
    try:
        resolve_policy(name)
    except EunomiaError:
        return False
    return True
