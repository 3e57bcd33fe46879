"""What a policy may know about a sub-job, written when it becomes ready."""

from __future__ import annotations

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    facts_at,
    job_at,
    model_at,
    pair_at,
    pending_at,
    row_at,
    slot_at,
    system_of,
)
from eunomia.inference.kernel.setup import GRACE_S


@jitted
def is_late(facts: Record, now_s: float) -> bool:
    """Hopeless: even alone and on the best accelerators the deadline will be missed."""
    return facts.deadline_s + GRACE_S < now_s + facts.path_best_s


@jitted
def fill_request_facts(k: Kernel, node: int, slot: int) -> None:
    """What a policy may know about the request of a sub-job; stays the same from layer to layer."""
    record, facts = slot_at(k, slot), facts_at(k, node)
    job, pair, model = job_at(k, record.request), pair_at(k, record.pair), model_at(k, record.model)
    facts.request, facts.model, facts.pair = record.request, record.model, record.pair
    facts.tenant, facts.weight, facts.slo = pair.tenant, pair.weight, pair.slo_target
    facts.arrival_s, facts.deadline_s = record.arrival_s, record.deadline_s
    facts.iso_best_s, facts.iso_mean_s = model.iso_best_s, model.iso_mean_s
    facts.priority, facts.deferrable = job.priority, job.deferrable
    facts.layers_total = record.layers


@jitted
def fill_layer_facts(k: Kernel, node: int, slot: int, layer: int) -> None:
    """What a policy may know about a sub-job that becomes ready now."""
    if k.learn > 0.0:
        refresh_work(k, slot)
    record, facts, row = slot_at(k, slot), facts_at(k, node), row_at(k, slot_at(k, slot).row0 + layer)
    facts.layer, facts.row, facts.ready_s = layer, record.row0 + layer, system_of(k).now_s
    facts.work_best_s, facts.work_mean_s, facts.bytes_left = (
        record.work_best_s,
        record.work_mean_s,
        record.bytes_left,
    )
    facts.path_best_s, facts.path_mean_s = row.path_best_s, row.path_mean_s
    facts.attained_s, facts.last_run_s = record.attained_s, record.last_run_s
    facts.layers_done, facts.accelerator = record.done, record.last_accelerator
    facts.sequence = k.sequence


@jitted
def refresh_work(k: Kernel, slot: int) -> None:
    """Remaining work from current estimates, where these are learned online."""
    record = slot_at(k, slot)
    best, mean, data = 0.0, 0.0, 0.0
    for layer in range(record.layers):
        if pending_at(k, slot * k.num_layers + layer).value != -2:
            best += row_at(k, record.row0 + layer).best_s
            mean += row_at(k, record.row0 + layer).mean_s
            data += row_at(k, record.row0 + layer).row_bytes
    record.work_best_s, record.work_mean_s, record.bytes_left = best, mean, data
