"""From a scenario's tenants to networks, streams and requests."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eunomia.config.arrivals import ArrivalsConfig, TraceConfig
from eunomia.config.demand import ModelConfig, TenantConfig
from eunomia.config.network import NetworkConfig
from eunomia.config.scenario import Scenario
from eunomia.core.errors import ConfigError, within
from eunomia.study.files import file_stamps
from eunomia.study.inference.rates import faster
from eunomia.workload import deadlines, traces, zoo
from eunomia.workload.arrivals import Replay
from eunomia.workload.generate import generate
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.processes import Arrivals, arrivals
from eunomia.workload.requests import RequestTable
from eunomia.workload.sets import workload_set
from eunomia.workload.stream import Draw, Stream
from eunomia.workload.tenant import Agreement
from eunomia.workload.traces import TRACES


def networks(scenario: Scenario) -> tuple[DnnModel, ...]:
    """All networks that the tenants use, each once, in order of first use.

    Raises UnknownNameError for a name outside the zoo, ModelError for an unusable file, ConfigError
    when one name stands for two different networks.
    """
    found: dict[str, DnnModel] = {}
    with within(f"'{scenario.name}'"):
        own = own_networks(scenario)
        used = [(tenant, model) for tenant in scenario.tenant for model in _tenant_networks(tenant, own)]
    for tenant, model in used:
        known = found.setdefault(model.name, model)
        if known.content_hash != model.content_hash:
            raise ConfigError(
                f"tenant '{tenant.name}' uses a network called '{model.name}' that differs from "
                "another one of that name; give it its own with name = ..."
            )
    return tuple(found.values())


def own_networks(scenario: Scenario) -> dict[str, DnnModel]:
    """The networks that a scenario writes out, by name.

    Raises ModelError for one that cannot be, and ConfigError for a name of the zoo: every tenant who names that
    network would run this one.
    """
    for config in scenario.network or []:
        if zoo.is_registered(config.name):
            raise ConfigError(
                f"network '{config.name}' has the name of a built-in network, which other tenants may mean; "
                "give it a name of its own"
            )
    return {config.name: _written_out(config) for config in scenario.network or []}


def _written_out(config: NetworkConfig) -> DnnModel:
    layers = tuple(Layer(**layer.model_dump()) for layer in config.layers)
    edges = [(n, n + 1) for n in range(len(layers) - 1)] if config.edges is None else config.edges
    facts = config.model_dump(include={"source", "word_bytes", "folded_params", "shared_params"})
    return DnnModel(config.name, layers, tuple((before, after) for before, after in edges), **facts)


def _tenant_networks(tenant: TenantConfig, own: Mapping[str, DnnModel]) -> list[DnnModel]:
    if tenant.model_set is not None:
        return [zoo.load(name) for name, _ in workload_set(tenant.model_set).models]
    networks = []
    for number, config in enumerate(tenant.models or []):
        with within(f"tenant.{tenant.name}.models.{number}"):
            networks.append(_network(config, own))
    return networks


def _network(config: ModelConfig, own: Mapping[str, DnnModel]) -> DnnModel:
    if config.model is not None:
        one = own[config.model] if config.model in own else zoo.load(config.model)
        return one.with_batch(config.batch or 1)
    from eunomia.workload.onnx import read_onnx

    assert config.onnx is not None, "a model is from the zoo or from a file"
    model = read_onnx(
        config.onnx,
        batch=config.batch or 1,
        dims=config.dims,
        branches=config.branches,
        trip_counts=config.trip_counts,
    )
    return replace(model, name=_model_name(config, own))


def _model_name(config: ModelConfig, own: Container[str]) -> str:
    if config.model is not None:
        name = config.model if config.model in own else zoo.load(config.model).name
        return name if (config.batch or 1) == 1 else f"{name}@{config.batch}"
    return config.name or Path(config.onnx or "").stem


def requests(
    scenario: Scenario, seed: int, iso_best_s: Mapping[str, float], factor: float = 1.0
) -> RequestTable:
    """The requests of one run; ``factor`` multiplies all arrival rates. The policy plays no part."""
    table = generate(streams(scenario, factor), scenario.duration_s, seed, iso_best_s=iso_best_s)
    if not len(table):
        rates = not all(isinstance(tenant.arrivals, TraceConfig) for tenant in scenario.tenant)
        raise ConfigError(
            f"no request arrives within duration_s = {scenario.duration_s:g}; raise it{', or a rate' if rates else ''}"
        )
    return table


def streams(scenario: Scenario, factor: float) -> list[Stream]:
    """One for each tenant, whatever the seed."""
    own = frozenset(network.name for network in scenario.network or [])
    return [_stream(tenant, factor, own) for tenant in scenario.tenant]


def replayed_alike(scenario: Scenario, factor: float) -> list[str]:
    """Tenants that replay the same piece of their trace under every seed."""
    return [
        tenant.name
        for tenant in scenario.tenant
        if isinstance(tenant.arrivals, TraceConfig)
        and not faster(_process(tenant), factor, tenant.name).varies(scenario.duration_s)  # type: ignore[union-attr]
    ]


def recorded(scenario: Scenario) -> dict[str, int]:
    """Of each tenant that replays a trace, how many arrivals the trace has for it."""
    return {
        tenant.name: len(_process(tenant).base_s)  # type: ignore[union-attr]
        for tenant in scenario.tenant
        if isinstance(tenant.arrivals, TraceConfig)
    }


def _stream(tenant: TenantConfig, factor: float, own: Container[str]) -> Stream:
    process = None if tenant.arrivals is None else faster(_process(tenant), factor, tenant.name)
    window = deadlines.Window(tenant.defer_s[0], tenant.defer_s[1]) if tenant.defer_s else None
    if tenant.model_set is not None:
        return _set_stream(tenant, process, window, factor)
    assert process is not None, "checked with the scenario"
    draws = tuple(_draw(tenant, config, own) for config in tenant.models or [])
    return Stream(draws, process, mix=tenant.mix, window=window)


def _set_stream(
    tenant: TenantConfig, process: Arrivals | None, window: deadlines.Window | None, factor: float
) -> Stream:
    chosen = workload_set(tenant.model_set or "")
    level: deadlines.Level = (tenant.deadline or "qos_m")[-1]  # type: ignore[assignment]
    slo = tenant.slo.slo if tenant.slo else None
    draws = tuple(
        replace(draw, agreement=replace(draw.agreement, priority=tenant.priority, weight=tenant.weight))
        for draw in chosen.draws(tenant.name, level, slo, tenant.deadline_alpha)
    )
    if process is None:
        process = faster(chosen.paced(), factor, tenant.name)
    return Stream(draws, process, mix=tenant.mix, window=window, priorities=chosen.priorities)


def _draw(tenant: TenantConfig, config: ModelConfig, own: Container[str]) -> Draw:
    promised = config.slo or tenant.slo
    agreement = Agreement(
        tenant=tenant.name,
        model=_model_name(config, own),
        slo=promised.slo if promised else None,
        priority=tenant.priority if config.priority is None else config.priority,
        weight=tenant.weight,
    )
    return Draw(agreement, config.draw, _deadline(config))


def _deadline(config: ModelConfig) -> deadlines.DeadlineRule:
    if config.deadline is not None:
        return deadlines.named_deadline(config.deadline, config.deadline_set, config.deadline_alpha)
    if config.deadline_ms is not None:
        return deadlines.Within(config.deadline_ms)
    if config.deadline_factor is not None:
        return deadlines.IsolatedFactor(config.deadline_factor)
    return deadlines.NoDeadline()


def _process(tenant: TenantConfig) -> Arrivals:
    assert tenant.arrivals is not None, "checked by the caller"
    with within(f"tenant.{tenant.name}.arrivals"):
        return arrivals_of(tenant.arrivals)


def arrivals_of(config: ArrivalsConfig) -> Arrivals:
    """The process that an ``arrivals = {...}`` table describes; raises ConfigError for a trace that is not there."""
    if isinstance(config, TraceConfig):
        return _replay(config)
    settings = config.model_dump(exclude={"process"}, exclude_none=True)
    return arrivals(config.process, **settings)


def _replay(config: TraceConfig) -> Replay:
    if config.trace != "auto":
        TRACES.resolve(config.trace)  # a wrong name is said before a missing file
    if not Path(config.path).is_file():
        raise ConfigError(missing_trace(config))
    times = _times(config.trace, config.path, config.tenant, str(file_stamps([config.trace, config.path])))
    return Replay(times, config.speedup, config.loop, config.skip_s, config.window)


@lru_cache(maxsize=8)
def _times(form: str, path: str, tenant: str | None, stamp: str) -> npt.NDArray[np.float64]:
    """Arrival times of a trace, read once for all seeds; ``stamp`` tells when the file has changed."""
    trace = traces.open(form, path)
    return trace.arrival_s if tenant is None else trace.of_tenant(tenant).arrival_s


WHERE = {
    "azure-llm": "AzureLLMInferenceTrace_conv.csv and _code.csv of github.com/Azure/AzurePublicDataset",
    "azure-functions": "AzureFunctionsDataset2019 of github.com/Azure/AzurePublicDataset",
    "burstgpt": "BurstGPT_1.csv of github.com/HPMLL/BurstGPT",
    "philly": "cluster_job_log of github.com/msr-fiddle/philly-traces",
}


def missing_trace(config: TraceConfig) -> str:
    """How to get a trace that is not there."""
    get = f"get it from {WHERE[config.trace]} and " if config.trace in WHERE else ""
    other = """--set 'tenant.NAME.arrivals={process="poisson", rate_per_s=10.0}'"""
    return (
        f"there is no trace at {config.path}; {get}say where it is with --set tenant.NAME.arrivals.path=FILE, "
        f"or do without: {other}"
    )
