"""What service cost: time of accelerators, energy, and the scheduler itself. Formulas: docs/metrics.md."""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.metrics.columns import Costs, Requests, Subjobs
from eunomia.metrics.service import group_means, slowdown
from eunomia.metrics.statistics import mean


def antt(requests: Requests) -> float:
    """Average normalised turnaround time: mean over F of resp/iso; 1 = as if alone.

    Source: Eyerman and Eeckhout, IEEE Micro 28(3), 2008.

    Misleads: small models dominate; below 1 with parallel branches, because iso adds up all layers.
    """
    return mean(slowdown(requests))


def stp(departed: Requests, length_s: float) -> float:
    """System throughput: sum of iso over departures / T, the time average of the sum of iso/resp in the system.

    Source: Eyerman and Eeckhout, 2008.

    Misleads: it equals the load below saturation and favours long models above it.
    """
    return float(departed.isolated_s.sum()) / length_s if length_s > 0.0 else math.nan


def stp_sum(requests: Requests) -> float:
    """System throughput of one batch that runs together: sum over F of iso/resp.

    Misleads: it grows with the number of requests.
    """
    return float((1.0 / slowdown(requests)).sum())


def utilisation(subjobs: Subjobs, accelerators: int, start_s: float, end_s: float) -> float:
    """Time in which a layer ran, clipped to the measured time, / (S T). Without recorded sub-jobs: of the whole run.

    Misleads: busy time rises with contention and with slow placement.
    """
    return _share(_overlap_s(subjobs, start_s, end_s), accelerators, start_s, end_s)


def effective_utilisation(subjobs: Subjobs, accelerators: int, start_s: float, end_s: float) -> float:
    """Isolated time of the layers that ran / (S T): no stretch, switching or deciding; cut layers count in proportion.

    Misleads: a layer on a slow type counts as more work.
    """
    inside = _overlap_s(subjobs, start_s, end_s)
    whole = np.where(np.isfinite(subjobs.end_s), subjobs.end_s - subjobs.start_s, inside)
    part = np.divide(inside, whole, out=np.zeros(len(inside)), where=whole > 0.0)
    work = np.where(np.isfinite(subjobs.end_s), subjobs.work_s, np.minimum(subjobs.work_s, inside))
    return _share(part * work, accelerators, start_s, end_s)


def utilisation_of_run(seconds: Floats, horizon_s: float) -> float:
    """The same from totals per accelerator over the whole run, warm-up included, when sub-jobs were not kept."""
    return _share(seconds, len(seconds), 0.0, horizon_s)


def energy_per_request_j(requests: Requests) -> float:
    """Energy of all measured requests / A, work for dropped and late ones included.

    Misleads: it falls when a policy drops early or starves large models. Static power counts over isolated layer time
    alone: finishing earlier saves nothing.
    """
    return mean(requests.energy_j)


def energy_per_hit_j(requests: Requests) -> float:
    """Energy of all measured requests / H; nan without hits.

    Misleads: as energy per request; it rises with every miss.
    """
    hits = int(np.count_nonzero(requests.hit))
    return float(requests.energy_j.sum()) / hits if hits else math.nan


def scheduler_energy_overhead(requests: Requests, scheduler_energy_j: float) -> float:
    """Energy of deciding (`Facts.scheduler_energy_j`) / energy of the measured requests.

    Source: RELMAS (below 1.5 %) and Fair/Firm (0.39 %) give no definition.

    Misleads: it stands on an assumed power of the scheduling processor.
    """
    inference_j = float(requests.energy_j.sum())
    return scheduler_energy_j / inference_j if inference_j > 0.0 else math.nan


def rival_energy_overhead(ours: Requests, rival: Requests) -> float:
    """Overhead (b): energy per request of our mapping / that of the rival's - 1, over requests both finished.

    Requests are matched by their number, so both runs must be of one trace; nan when they share none.
    """
    done, theirs = ours.where(ours.finished), rival.where(rival.finished)
    _, mine, other = np.intersect1d(done.request, theirs.request, assume_unique=True, return_indices=True)
    rival_j = float(theirs.energy_j[other].sum())
    return float(done.energy_j[mine].sum()) / rival_j - 1.0 if rival_j > 0.0 else math.nan


def normalised_energy(requests: Requests, costs: Costs) -> dict[str, float]:
    """Mean energy of a model's finished requests / its energy when every layer runs on its costliest type."""
    names = requests.model.names
    done = requests.finished
    spent = group_means(requests.energy_j[done], requests.model[done])
    return {
        name: float(spent[code]) / _costliest_j(costs, name)
        for code, name in enumerate(names)
        if not math.isnan(spent[code])
    }


def ux_cost(requests: Requests, costs: Costs) -> float:
    """(sum over models of the miss rate) * (sum over models of the normalised energy).

    Normalised energy = mean energy of the model's finished requests / its energy with each layer on its costliest type.

    Source: DREAM (ASPLOS 2023).

    Misleads: 0 as soon as nothing misses. A model without a finished request adds misses but no energy.
    """
    energy = normalised_energy(requests, costs)
    missed = group_means(np.where(requests.hit, 0.0, 1.0), requests.model)
    return float(np.nansum(missed)) * sum(energy.values()) if energy else math.nan


def decisions_per_request(decisions_s: Floats, requests: int, start_s: float, end_s: float) -> float:
    """Decisions (sub-jobs started) within the measured time / A.

    Misleads: it grows with a model's layers.
    """
    inside = np.count_nonzero((decisions_s >= start_s) & (decisions_s <= end_s))
    return int(inside) / requests if requests else math.nan


def period_in_layers(period_s: float, subjobs: Subjobs) -> float:
    """T_s / mean isolated time of the layers that ran, of periodic scheduling; it should be well below 1.

    Raises ConfigError for a period that is not positive.

    Misleads: the mean is over layers that differ by orders of magnitude.
    """
    if not period_s > 0.0:
        raise ConfigError(f"period is {period_s} s; it must be positive")
    return period_s / mean(subjobs.work_s) if len(subjobs.work_s) else math.nan


def _overlap_s(subjobs: Subjobs, start_s: float, end_s: float) -> Floats:
    """(m,) part of each layer's run that lies within the measured time."""
    inside = np.minimum(subjobs.end_s, end_s) - np.maximum(subjobs.start_s, start_s)
    return np.asarray(np.maximum(0.0, inside))


def _share(seconds: Floats, accelerators: int, start_s: float, end_s: float) -> float:
    available = accelerators * (end_s - start_s)
    return float(seconds.sum()) / available if available > 0.0 else math.nan


def _costliest_j(costs: Costs, model: str) -> float:
    """Sum over layers of the largest energy on a type that can run the layer; nan for an unknown model."""
    rows = (costs.model.codes == costs.model.code(model)) & np.isfinite(costs.latency_s)
    most = np.zeros(int(costs.layer.max(initial=-1)) + 1)
    np.maximum.at(most, costs.layer[rows], costs.energy_j[rows])
    return float(most.sum()) or math.nan
