"""A server's recording as a scenario: its traffic as a trace, its measured block times as a table of costs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.inference.by_type import means
from eunomia.study.serving.twin import Twin
from eunomia.workload import zoo
from eunomia.workload.tenant import Agreement

PIECES = 4  # a run replays such a part of the recording, each seed from its own random time
FEWEST = 50  # requests of a recording, below which pieces say nothing
FILES = ("scenario.toml", "trace.csv", "costs.csv")


def write_scenario(twin: Twin, folder: Path) -> dict[str, str]:
    """``scenario.toml``, ``trace.csv`` and ``costs.csv``; their paths by what they hold.

    Each size of a network is a network of its own there. A pair's deadline is the median of those recorded. Times are
    means: the spread of single executions is left out, as bounds do not cover it. Tenants keep their promises. Raises
    ConfigError for a recording of too few requests.
    """
    if len(twin.requests) < FEWEST:
        raise ConfigError(
            f"the recording holds {len(twin.requests)} requests; a scenario needs {FEWEST}: record longer"
        )
    import tomli_w

    names = {model.name: _own_name(model.name) for model in twin.table.models}
    write_text(folder / "trace.csv", _trace(twin, names))
    write_text(folder / "costs.csv", _costs(twin, names))
    write_text(folder / "scenario.toml", tomli_w.dumps(_scenario(twin, names)))
    return {
        "scenario": str(folder / FILES[0]),
        "trace": str(folder / FILES[1]),
        "costs": str(folder / FILES[2]),
    }


def _own_name(name: str) -> str:
    """A network of the zoo has other layers than the blocks that were served."""
    return f"{name}-served" if zoo.is_registered(name) else name


def _trace(twin: Twin, names: dict[str, str]) -> str:
    pairs, models = twin.requests.agreements, twin.table.models
    rows = [
        (repr(float(at)), pairs[pair].tenant, names[models[model].name])
        for at, pair, model in zip(twin.requests.arrival_s, twin.requests.pair, twin.model, strict=True)
    ]
    return _csv(("arrival_s", "tenant", "model"), rows)


def _costs(twin: Twin, names: dict[str, str]) -> str:
    table, rows = twin.table, []
    for row in range(len(table.compute_s)):
        model, layer = table.layer_at(row)
        for column, kind in enumerate(table.types):
            rows.append((names[model.name], str(layer), kind, repr(float(table.compute_s[row, column]))))
    return _csv(("model", "layer", "type", "latency_s"), rows)


def _csv(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _scenario(twin: Twin, names: dict[str, str]) -> Data:
    """The scenario as plain data; paths are beside its file."""
    requests = twin.requests
    tenants = list(dict.fromkeys(agreement.tenant for agreement in requests.agreements))
    length_s = float(requests.arrival_s.max())
    networks = [
        {
            "name": names[model.name],
            "layers": [
                {"name": layer.name, "kind": layer.kind, "in_w": layer.in_w} for layer in model.layers
            ],
        }
        for number, model in enumerate(twin.table.models)
        if (twin.model == number).any()
        or any(agreement.model == model.name for agreement in requests.agreements)
    ]
    return {
        "name": "recorded traffic",
        "duration_s": length_s / PIECES,
        "platform": {
            "accelerators": [{"type": kind} for kind in twin.table.types],
            "dram_bandwidth_gb_s": 1.0,
            "contention": "none",
            "cost_csv": "costs.csv",
        },
        "engine": {
            "late": "drop" if twin.late == "drop" else "last",
            "switch_s": means(twin.turn),
            "move_s": means(twin.move),
        },
        "network": networks,
        "tenant": [found for name in tenants if (found := _tenant(twin, name, names))],
    }


def _tenant(twin: Twin, name: str, names: dict[str, str]) -> Data | None:
    """A tenant with the networks and sizes that it used, in the shares of its requests; None where it sent nothing."""
    requests, models = twin.requests, []
    for pair, agreement in enumerate(requests.agreements):
        if agreement.tenant != name:
            continue
        for number in np.unique(twin.model[requests.pair == pair]):
            mine = (requests.pair == pair) & (twin.model == number)
            models.append(
                _model(agreement, names[twin.table.models[number].name], requests.relative_deadline_s[mine])
            )
    if not models:
        return None
    weight = next(agreement.weight for agreement in requests.agreements if agreement.tenant == name)
    arrivals = {"trace": "canonical", "path": "trace.csv", "tenant": name}
    return {"name": name, "weight": weight, "arrivals": arrivals, "models": models}


def _model(agreement: Agreement, name: str, deadline_s: npt.NDArray[np.float64]) -> Data:
    """What a tenant sends of one model; ``deadline_s``: of each request."""
    model: Data = {"model": name, "draw": float(len(deadline_s)), "priority": agreement.priority}
    median_s = float(np.median(deadline_s))
    if np.isfinite(median_s):
        model["deadline_ms"] = 1e3 * median_s
        if agreement.slo is not None and agreement.slo.kind == "hit_rate":
            model["slo"] = {"hit_rate": agreement.slo.target}
    return model
