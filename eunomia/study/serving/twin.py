"""The digital twin of a server: its measured blocks and its recorded traffic, in the simulator."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.hardware.table import CostTable
from eunomia.inference.by_type import Draw
from eunomia.inference.options import EngineOptions, Estimator, Late
from eunomia.inference.problem import Problem, build_problem
from eunomia.serving.dispatch.jobs import NOWHERE, SEVERAL
from eunomia.study.serving.twin_costs import Damaged, Row, TwinCosts, is_time, twin_costs
from eunomia.study.serving.twin_noise import MOST_FACTOR, MOST_S, twin_noise
from eunomia.study.serving.twin_server import DISPATCHED, TwinServer, twin_server
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo

FORMAT, SIZED = (3, 4, 5, 6, 7, 8), (4, 5, 6, 7, 8)  # that can be read; those whose requests have sizes
ANSWERED, GIVEN_UP = ("hit", "late"), ("expired", "cancelled")
AGAIN = "record it again with: eunomia twin record URL"
TOKEN = 300  # letters: names and numbers of a recording are shorter
ANY_FORMAT = ("format", "policy", "networks", "requests")
KEYS = ("format", "policy", "late", "devices", "networks", "pairs", "turn_s", "spread", "requests")


@dataclass(frozen=True)
class TwinPlatform:
    """Devices that share nothing: one type each, for each was measured by itself."""

    types: tuple[str, ...]
    type_of: npt.NDArray[np.int64]
    dram_bytes_s: float = math.inf
    contention: str = "none"


@dataclass(frozen=True)
class Twin:
    """A server's recording as a scheduling problem, and what the server itself made of it.

    ``hit`` and ``response_s``: (n,) measured, in the order of ``requests``. Requests that the server refused
    before they were accepted are not in a recording. Each costs what its shape does. Requests of one batch count as one
    unit of work each, which flatters neither side as long as batches are not used (``max_batch = 1``).

    By device, as the simulator draws it: ``turn``, what it loses with every change of request [s]; ``move``, what
    another one loses on top that goes on with its request (0 before format 6); ``jitter`` of its block times: factors,
    or before format 6 the standard deviation of their logarithm. ``reach_s`` (n,): from a request's acceptance
    until devices knew of it; it stands in ``requests`` so much later than it really came. ``answer_s`` (n,): from the
    end of its last block to its answer; ``gone_s`` (n,): from its arrival to its answer of whatever kind (nan = not
    known). ``given_up``, ``failed`` (n,): its client left before its answer; it had none for another reason, but
    for its deadline. ``factor`` (n,): what its blocks took over their means on device ``worked_on``, or on several.
    ``share`` (n,): what was lost before its runs over the mean of such starts, at most 1 (nan = not known).
    ``more_s`` (n,): what each lost beyond that mean; ``once``: there was one.
    ``server``: of what the dispatcher itself can be run (None before format 8). ``left_out``: requests of networks
    whose block times were not recorded, by network; they are in nothing else here.
    """

    requests: RequestTable
    table: CostTable
    platform: TwinPlatform
    late: str
    policy: str
    hit: npt.NDArray[np.bool_]
    response_s: npt.NDArray[np.float64]
    turn: dict[str, Draw]
    move: dict[str, Draw]
    jitter: dict[str, Draw]
    reach_s: npt.NDArray[np.float64]
    answer_s: npt.NDArray[np.float64]
    gone_s: npt.NDArray[np.float64]
    given_up: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]
    factor: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]
    more_s: npt.NDArray[np.float64]
    once: npt.NDArray[np.bool_]
    worked_on: npt.NDArray[np.int64]
    server: TwinServer | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def model(self) -> npt.NDArray[np.int64]:
        """(n,) the model of the table that each request runs."""
        names = [model.name for model in self.table.models]
        own = [names.index(a.model) if a.model in names else -1 for a in self.requests.agreements]
        return np.where(
            self.requests.size >= 0, self.requests.size, np.array(own, np.int64)[self.requests.pair]
        )

    def problem(self) -> Problem:
        """A fresh problem."""
        return build_problem(self.requests, self.table, self.platform, self.options)

    @property
    def options(self) -> EngineOptions:
        """The engine as the server was set."""
        late: Late = "drop" if self.late == "drop" else "last"
        times = Estimator(jitter=self.jitter)
        return EngineOptions(
            late=late, switch_s=self.turn, move_s=self.move, estimator=times, record="requests"
        )


def read_twin(path: str | Path) -> Twin:
    """A recording as ``GET /v2/eunomia/twin`` gives it. Raises ConfigError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        cut = f"; it looks cut off: {AGAIN}" if _cut_off(text.strip(), error) else ""
        raise ConfigError(f"{path} is not JSON: {error}{cut}") from None
    return twin_of(content, str(path))


def _cut_off(text: str, error: json.JSONDecodeError) -> bool:
    """Whether it is an object as far as it goes: what is wrong with it is its end."""
    return text[:1] in ("", "{") and text[-1:] != "}" and error.pos >= len(text) - TOKEN


NO_RECORDING = "is no recording of a server; get one with: eunomia twin record URL"


def twin_of(content: object, source: str = "recording") -> Twin:
    """The same from a dictionary."""
    if not isinstance(content, dict) or any(key not in content for key in ANY_FORMAT):
        raise ConfigError(f"{source} {NO_RECORDING}")
    if content["format"] not in FORMAT:
        raise ConfigError(
            f"{source} has format {content['format']!r:.20}; this version reads {FORMAT[0]} to {FORMAT[-1]}: {AGAIN}"
        )
    if any(key not in content for key in KEYS) or (content["format"] in SIZED and "sizes" not in content):
        raise ConfigError(f"{source} {NO_RECORDING}")
    if not content["requests"]:
        raise ConfigError(f"{source} holds no request; send some first (eunomia load)")
    try:
        return _read(content)
    except Damaged as error:
        raise ConfigError(f"{source} is a damaged recording: {error}; record it again") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ConfigError(
            f"{source} is a damaged recording ({type(error).__name__}: {str(error)[:100]}); record it again"
        ) from None


def _read(content: Data) -> Twin:
    """A recording that has all its keys; raises whatever a damaged one provokes."""
    _check_settings(content)
    agreements = tuple(_agreement(pair) for pair in content["pairs"])
    noise = twin_noise(content)
    networks: Data = content["networks"]
    rows = [r for r in content["requests"] if r[2] in networks]
    left_out = Counter(str(r[2]) for r in content["requests"] if r[2] not in networks)
    if not rows:
        raise Damaged(f"it holds no block times of the networks that were asked ({', '.join(left_out):.100})")
    for r in rows:
        _check_request(r)
    start_s = min(r[0] for r in rows)
    rows.sort(key=lambda r: r[0] - start_s + r[8])
    sizes = content["sizes"] if content["format"] in SIZED else None
    costs = twin_costs(networks, sizes, tuple(content["devices"]), rows, noise.look_s)
    dispatched = content["format"] >= DISPATCHED
    place_of = {name: n for n, name in enumerate(networks)}
    place = {(a.tenant, a.model): n for n, a in enumerate(agreements)}
    reach_s, answer_s = (np.array([float(r[n]) for r in rows]) for n in (8, 9))
    deadline_s = np.array([math.inf if r[3] is None else r[3] for r in rows])
    requests = RequestTable(
        agreements,
        np.array([place[r[1], r[2]] for r in rows], np.int64),
        np.array([r[0] - start_s + r[8] for r in rows]),
        np.maximum(deadline_s - reach_s, 1e-9),
        size=costs.size,
    )
    worked_on = np.array([_device(r) for r in rows]) if dispatched else np.full(len(rows), NOWHERE)
    platform = TwinPlatform(costs.table.types, np.arange(len(costs.table.types)))
    hit = np.array([r[5] == "hit" for r in rows])
    response_s = np.array([r[6] if r[5] in ANSWERED else math.nan for r in rows])
    return Twin(
        requests,
        costs.table,
        platform,
        content["late"],
        content["policy"],
        hit,
        response_s,
        noise.turn,
        noise.move,
        noise.jitter,
        reach_s,
        answer_s,
        np.array([r[6] if is_time(r[6]) else math.nan for r in rows]),
        np.array([r[5] in GIVEN_UP for r in rows]),
        np.array([r[5] not in (*ANSWERED, *GIVEN_UP, "hopeless") for r in rows]),
        _factors(rows, worked_on, costs, [place_of[r[2]] for r in rows]),
        np.array([_share(r) if dispatched else math.nan for r in rows]),
        np.array([max(0.0, r[13] - r[14]) / max(r[15], 1) if dispatched else 0.0 for r in rows]),
        np.array([dispatched and r[15] == 1 for r in rows], np.bool_),
        worked_on,
        twin_server(content, costs.blocks, tuple(list(networks)[n] for n in costs.table.size_of)),
        dict(left_out),
    )


def _check_settings(content: Data) -> None:
    """How the server was set; raises Damaged."""
    late, policy, batch = content["late"], content["policy"], content.get("max_batch", 1)
    if late not in ("last", "drop"):
        raise Damaged(f"late is {late!r:.50}; it is 'last' or 'drop'")
    if not isinstance(policy, str):
        raise Damaged(f"policy is {policy!r:.50}; it is a name")
    if type(batch) is not int or batch < 1:
        raise Damaged(f"max_batch is {batch!r:.50}; it is a whole number from 1 on")


def _device(row: Row) -> int:
    """Where the blocks of a request were run; -1 = on none, -2 = on several."""
    fine = all(is_time(row[n]) for n in (11, 12, 13, 14)) and type(row[15]) is int and type(row[16]) is int
    if not fine or max(row[13], row[14]) > MOST_S * max(row[15], 1):
        raise Damaged(
            f"a request of '{row[1]:.50}' worked for {row[11]!r:.50} s on device {row[16]!r:.50}, "
            f"and lost {row[13]!r:.50} s ({row[14]!r:.50} in the mean) before {row[15]!r:.50} runs"
        )
    return row[16] if row[11] > 0.0 else NOWHERE


def _share(row: Row) -> float:
    """Of what such starts lose in the mean, at most all of it; nan where it never began."""
    return math.nan if row[15] == 0 else 1.0 if row[13] >= row[14] else row[13] / row[14]


def _factors(
    rows: Sequence[Row], worked_on: npt.NDArray[np.int64], costs: TwinCosts, network: Sequence[int]
) -> npt.NDArray[np.float64]:
    """(n,): what the blocks of each request took over their means where they ran; nan = not known."""
    factor = np.full(len(rows), math.nan)
    for n, device in enumerate(worked_on.tolist()):
        blocks_s = costs.blocks[costs.size[n] if costs.size[n] >= 0 else network[n]]
        expected_s = (
            blocks_s[:, device].sum()
            if 0 <= device < blocks_s.shape[1]
            else rows[n][12]
            if device == SEVERAL
            else 0.0
        )
        if expected_s > 0.0 and rows[n][5] in ANSWERED:
            factor[n] = rows[n][11] / expected_s
            if factor[n] > MOST_FACTOR:
                took = f"{rows[n][11]:g} s, {factor[n]:.0g} times its blocks"
                raise Damaged(f"a request of '{rows[n][1]:.50}' worked for {took}")
    return factor


def _agreement(pair: Data) -> Agreement:
    """Raises Damaged."""
    whose = f"the pair of '{pair['tenant']!s:.50}' and '{pair['model']!s:.50}'"
    for name in ("priority", "weight"):
        if isinstance(pair[name], bool) or not isinstance(pair[name], int | float) or not is_time(pair[name]):
            raise Damaged(f"{whose} has {name} {pair[name]!r:.50}; it is a number from 0 on")
    if not all(isinstance(pair[name], str) for name in ("tenant", "model")):
        raise Damaged(f"{whose} has a name that is no text")
    promised = pair["slo"]
    try:
        slo = None if promised is None else Slo(**promised)
    except (TypeError, ConfigError) as error:
        raise Damaged(f"{whose} was promised {promised!r:.100}: {error!s:.100}") from None
    numbers = [value for name, value in (promised or {}).items() if name != "kind"]
    whole = slo is None or type(slo.window_requests) is int
    if not whole or any(type(value) not in (int, float) or not is_time(value) for value in numbers):
        raise Damaged(f"{whose} was promised {promised!r:.100}; all but its kind are numbers from 0 on")
    return Agreement(pair["tenant"], pair["model"], slo, pair["priority"], pair["weight"])


def _check_request(row: Row) -> None:
    """A request's times; raises Damaged."""
    whose = f"a request of '{row[1]:.50}' for '{row[2]:.50}'"
    if not is_time(abs(row[0])):
        raise Damaged(f"{whose} arrives at {row[0]!r:.50} s")
    if row[3] is not None and not is_time(row[3]):
        raise Damaged(f"{whose} has a deadline of {row[3]!r:.50} s; null means none")
    if row[5] in ANSWERED and not is_time(row[6]):
        raise Damaged(f"{whose} was answered after {row[6]!r:.50} s")
    for value in row[8:10]:
        if not is_time(value):
            raise Damaged(f"{whose} took {value!r:.50} s to be heard or answered")
