"""``slurm.conf``: nodes with GPUs, partitions, and the settings of priority and backfill that the model has.

Settings that the model lacks are named in ``ignored``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eunomia.cluster.operators.slurm_lines import Place, hosts, lines_of
from eunomia.cluster.policies.slurm.allocator import Slurm
from eunomia.cluster.traces.slurm_text import span_s
from eunomia.core.errors import ConfigError, EunomiaError, TraceError, UnknownNameError

GRES = re.compile(
    r"gpu(?::(?!no_consume[:(]|no_consume$)(?P<type>[^:()]+))?(?::no_consume)?(?::(?P<count>\d{1,6}))?(?:\(.*\))?",
    re.IGNORECASE,
)
WEIGHTS = {
    "priorityweightage": "age",
    "priorityweightfairshare": "fair_share",
    "priorityweightjobsize": "job_size",
    "priorityweightpartition": "partition",
    "priorityweightqos": "qos",
}
MODELLED = (  # keys that a what-if may change
    "PriorityWeightAge",
    "PriorityWeightFairshare",
    "PriorityWeightJobSize",
    "PriorityWeightPartition",
    "PriorityWeightQOS",
    "PriorityType",
    "PriorityMaxAge",
    "PriorityDecayHalfLife",
    "PriorityFlags",
    "PriorityFavorSmall",
    "FairShareDampeningFactor",
    "SchedulerType",
    "SchedulerParameters",
)
UNMODELLED = ("priorityweightassoc", "priorityweighttres", "preempttype", "downnodes", "include")
BACKFILL = ("bf_window", "bf_resolution", "bf_max_job_test")  # what the model takes of SchedulerParameters
UNTYPED = "gpu"
BY_OPTION = 0  # line of a value that --set gives


@dataclass(frozen=True)
class Partition:
    """Where its jobs may run, what its priority counts, and the limit of a job that names none."""

    name: str
    types: tuple[str, ...]
    priority: float
    limit_s: float  # nan = none


@dataclass(frozen=True)
class SlurmConf:
    """``counts`` and ``per_node`` by type of GPU; ``settings`` of the allocator."""

    path: Path
    counts: Mapping[str, int]
    per_node: Mapping[str, int]
    partitions: Mapping[str, Partition]
    settings: Mapping[str, object]
    ignored: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()  # partitions of nodes without GPUs

    def allocator(self, **more: object) -> Slurm:
        """The scheduler of this file. Raises ConfigError."""
        return Slurm(**{**self.settings, **more})  # type: ignore[arg-type]


@dataclass
class _Found:
    """What was read so far."""

    keys: dict[str, tuple[str, Place]] = field(default_factory=dict)
    gpus: dict[str, dict[str, int]] = field(default_factory=dict)  # node -> type -> count
    node_sets: dict[str, tuple[dict[str, str], Place]] = field(default_factory=dict)
    sets: dict[str, list[str]] = field(default_factory=dict)  # set of nodes -> nodes, as far as it is known
    features: dict[str, list[str]] = field(default_factory=dict)  # feature -> nodes
    partitions: list[tuple[dict[str, str], Place]] = field(default_factory=list)
    node_defaults: dict[str, str] = field(default_factory=dict)
    partition_defaults: dict[str, str] = field(default_factory=dict)


def read_slurm_conf(path: str | Path, changes: Mapping[str, str] | None = None) -> SlurmConf:
    """The parts of a slurm.conf that scheduling of GPUs needs; ``changes`` replace values of keys.

    Raises TraceError, and UnknownNameError for a change that would have no effect.
    """
    path = Path(path)
    found = _Found()
    for place, cell in lines_of(path):
        first = next(iter(cell))
        if first == "nodename":
            _node(place, cell, found)
        elif first == "nodeset":
            found.node_sets[cell[first]] = cell, place
        elif first == "partitionname":
            if cell[first].upper() == "DEFAULT":
                found.partition_defaults |= cell
            else:
                found.partitions.append(({**found.partition_defaults, **cell}, place))
        else:
            found.keys.update({key: (value, place) for key, value in cell.items()})
    for key, value in (changes or {}).items():
        if key.lower() not in map(str.lower, MODELLED):
            raise UnknownNameError(f"key of {path.name} (--set), or one without effect here:", key, MODELLED)
        found.keys[key.lower()] = value, (path, BY_OPTION)
    if not any(found.gpus.values()):
        raise TraceError(
            "no NodeName line has GPUs; give Gres=gpu:TYPE:COUNT there, or put the files that are included beside "
            "this one",
            path,
        )
    counts: dict[str, int] = {}
    most: dict[str, int] = {}
    for node in found.gpus.values():
        for kind, count in node.items():
            counts[kind] = counts.get(kind, 0) + count
            most[kind] = max(most.get(kind, 0), count)
    for name in found.node_sets:
        _nodes_of(name, found)
    partitions = {cell["partitionname"]: _partition(place, cell, found) for cell, place in found.partitions}
    wanted = {cell["partitionname"] for cell, _ in found.partitions if cell.get("nodes")}
    empty = tuple(name for name, partition in partitions.items() if name in wanted and not partition.types)
    settings = {**_priority(found), **_backfill(path, found), "billing": _billing(found)}
    settings["one_node"] = len(found.gpus) == 1
    ignored = tuple(
        key for key in UNMODELLED if found.keys.get(key, ("",))[0] not in ("", "0", "preempt/none")
    )
    return SlurmConf(path, counts, most, partitions, settings, ignored, empty)


def _node(place: Place, cell: dict[str, str], found: _Found) -> None:
    if cell["nodename"].upper() == "DEFAULT":
        found.node_defaults |= cell
        return
    cell = {**found.node_defaults, **cell}
    gpus: dict[str, int] = {}
    for part in filter(None, re.split(r",(?![^(]*\))", cell.get("gres", ""))):
        if not part.lower().startswith("gpu"):
            continue
        match = GRES.fullmatch(part)
        if match is None:
            raise TraceError(f"'{part[:40]}' is no Gres of GPUs; write gpu:a100:4", *place, "Gres")
        kind, count = match["type"] or UNTYPED, match["count"]
        if count is None and kind.isdigit():
            kind, count = UNTYPED, kind  # gpu:4
        gpus[kind] = gpus.get(kind, 0) + int(count or 1)
    if cell.get("state", "").upper() != "FUTURE":
        for name in hosts(*place, cell["nodename"]):
            found.gpus[name] = gpus
            for feature in filter(None, cell.get("feature", cell.get("features", "")).split(",")):
                found.features.setdefault(feature, []).append(name)


def _listed(place: Place, nodes: str, found: _Found) -> list[str]:
    """Names of nodes, each once; sets of nodes stand for theirs."""
    if nodes.upper() == "ALL":
        return list(found.gpus)
    names = (_nodes_of(name, found) for name in hosts(*place, nodes))
    return list(dict.fromkeys(node for each in names for node in each))


def _nodes_of(name: str, found: _Found) -> list[str]:
    """Nodes of a set, which may hold sets; of a name that is none, the node."""
    if name in found.node_sets and name not in found.sets:
        cell, place = found.node_sets[name]
        found.sets[name] = []  # what it holds of itself
        nodes = _listed(place, cell.get("nodes", ""), found)
        found.sets[name] = nodes + found.features.get(cell.get("feature", ""), [])
    return found.sets.get(name, [name])


def _partition(place: Place, cell: dict[str, str], found: _Found) -> Partition:
    name, listed = cell["partitionname"], _listed(place, cell.get("nodes", ""), found)
    types = dict.fromkeys(kind for node in listed for kind in found.gpus.get(node, {}))
    limit_s = math.nan
    for key in ("defaulttime", "maxtime"):
        if cell.get(key, "").upper() not in ("", "UNLIMITED", "INFINITE", "NONE"):
            limit = span_s(cell[key])
            if limit is None:
                raise TraceError(f"'{cell[key][:40]}' is no time; write 2-00:00:00", *place, key)
            limit_s = limit if math.isnan(limit_s) else limit_s
    return Partition(
        name,
        tuple(types),
        _value((cell.get("priorityjobfactor", "1"), place), "PriorityJobFactor"),
        limit_s,
    )


def _priority(found: _Found) -> dict[str, object]:
    """Weights and decay; Slurm's defaults where the file says nothing: all weights 0, 7 days, Fair Tree."""
    basic = found.keys.get("prioritytype", ("priority/multifactor",))[0] == "priority/basic"
    settings: dict[str, object] = {name: 0.0 for name in WEIGHTS.values()}
    if not basic:
        settings |= {name: _value(found.keys[key], key) for key, name in WEIGHTS.items() if key in found.keys}
    for key, name in (("prioritymaxage", "max_age_s"), ("prioritydecayhalflife", "half_life_s")):
        if key in found.keys:
            text, place = found.keys[key]
            settings[name] = span_s(text)
            if settings[name] is None or settings[name] == math.inf:
                raise _wrong(f"'{text[:40]}' is no time; write 7-0 for seven days", place, key)
    if "fairsharedampeningfactor" in found.keys:
        settings["dampening"] = _value(found.keys["fairsharedampeningfactor"], "FairShareDampeningFactor")
    flags = found.keys.get("priorityflags", ("",))[0].upper()
    settings["tree"] = "classic" if "NO_FAIR_TREE" in flags else "fair_tree"
    text, place = found.keys.get("priorityfavorsmall", ("NO", (Path(), 1)))
    if place[1] == BY_OPTION and text.upper() not in ("YES", "NO"):
        raise _wrong(f"'{text[:40]}' is neither; write YES or NO", place, "PriorityFavorSmall")
    settings["favor_small"] = text.upper() == "YES"
    return settings


def _backfill(path: Path, found: _Found) -> dict[str, object]:
    settings: dict[str, object] = {"backfill": "slurm"}
    text, place = found.keys.get("schedulertype", ("sched/backfill", (path, 1)))
    if text not in ("sched/backfill", "sched/builtin"):
        raise _wrong(
            f"'{text[:40]}' is not modelled; choose sched/backfill or sched/builtin", place, "SchedulerType"
        )
    if text == "sched/builtin":
        settings["backfill"] = "none"
    text, place = found.keys.get("schedulerparameters", ("", (path, 1)))
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if place[1] == BY_OPTION and key not in BACKFILL:
            raise _wrong(
                f"'{part[:40]}' is not modelled; choose {', '.join(BACKFILL)}", place, "SchedulerParameters"
            )
        if key == "bf_window":
            settings["window_s"] = 60.0 * _value((value, place), key)
        if key == "bf_resolution":
            settings["resolution_s"] = max(_value((value, place), key), 1.0)
        if key == "bf_max_job_test":
            settings["depth"] = int(_value((value, place), key))
    return settings


def _billing(found: _Found) -> dict[str, float]:
    """Billing weights of GPU types, of the first partition that has the type and weights."""
    billing: dict[str, float] = {}
    for cell, place in found.partitions:
        weights = {
            key.lower(): _value((value, place), "TRESBillingWeights")
            for key, _, value in (
                part.partition("=") for part in cell.get("tresbillingweights", "").split(",")
            )
            if key.lower().startswith("gres/gpu")
        }
        for kind in _partition(place, cell, found).types:
            weight = weights.get(f"gres/gpu:{kind.lower()}", weights.get("gres/gpu"))
            if weight is not None:
                billing.setdefault(kind, weight)
    return billing


def _value(given: tuple[str, Place], key: str) -> float:
    text, place = given
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise _wrong(f"'{text[:40]}' is no number of at least 0; write one", place, key)
    return value


def _wrong(message: str, place: Place, key: str) -> EunomiaError:
    """What to raise for a value of a line of the file, or of the option that replaces it."""
    if place[1] != BY_OPTION:
        return TraceError(message, *place, key)
    own = next((name for name in MODELLED if name.lower() == key.lower()), f"SchedulerParameters={key}")
    return ConfigError(f"--set {own}: {message}")
