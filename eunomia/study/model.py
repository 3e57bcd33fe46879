"""A scenario built in Python: the same sections, checks and complaints as a scenario file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Unpack

from eunomia.config import Scenario, scenario_from, to_toml
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.gpu import GpuType
from eunomia.hardware.types import DeviceType
from eunomia.study.batch import BatchOptions
from eunomia.study.inference.compare import InferenceComparison, compare, sweep
from eunomia.study.inference.policy import PolicyLike, policy_name
from eunomia.study.inference.run import InferenceRun, run
from eunomia.study.sweep import SweepResult
from eunomia.workload.model import DnnModel, Layer

Setting = str | float | int | bool | None | Sequence["Setting"] | Mapping[str, "Setting"]
Section = Data


@dataclass(frozen=True)
class Tenant:
    """A tenant of a model, as ``add_tenant`` returns it."""

    name: str


class Model:
    """A scenario under construction; every method takes the keys of a section of a scenario file.

    ::

        model = Model("studio", duration_s=2.0)
        model.add_accelerator("simba", count=2)
        model.set_platform(dram_bandwidth_gb_s=24.0)
        gold = model.add_tenant("gold", weight=2.0)
        model.add_network(gold, "resnet50", deadline_factor=3.0, slo={"hit_rate": 0.95})
        model.set_arrivals(gold, "poisson", rate_per_s=40.0)
        print(model.compare(["fcfs", "edf"]).summary())

    Nothing is checked before ``scenario()``, which ``run``, ``compare`` and ``sweep`` call: what is wrong is then
    said in the words of a file's check (ConfigError). Relative paths start from the working directory.
    """

    def __init__(self, name: str, duration_s: float, **settings: Setting) -> None:
        """``settings``: warmup_s, seed, load, description."""
        self._table: Section = {
            "name": name,
            "duration_s": duration_s,
            "platform": {},
            "tenant": [],
        } | settings
        self._policy: PolicyLike | None = None  # of ``run``, where it is no text
        self._policies: list[PolicyLike] = []  # of ``compare``, those that are no text

    # --- hardware -----------------------------------------------------------------------------------------

    def set_platform(self, preset: str | None = None, **settings: Setting) -> None:
        """A platform by name, or what its accelerators share: dram_bandwidth_gb_s, contention, cost_csv."""
        self._table["platform"] |= _given({"preset": preset, **settings})

    def add_accelerator(self, kind: str | Path | DeviceType, count: int = 1) -> None:
        """Several accelerators of a type: its name, a TOML file that describes it, or the type itself."""
        entry: Section = {"count": count}
        if isinstance(kind, AcceleratorType | GpuType):
            entry["table"] = _device_table(kind)
        elif str(kind).endswith(".toml"):
            entry["file"] = str(kind)
        else:
            entry["type"] = kind
        self._table["platform"].setdefault("accelerators", []).append(entry)

    # --- demand -------------------------------------------------------------------------------------------

    def add_tenant(self, name: str, **settings: Setting) -> Tenant:
        """A tenant; ``settings``: weight, priority, slo, model_set, deadline, deadline_alpha, mix, defer_s."""
        self._table["tenant"].append({"name": name, **settings})
        return Tenant(name)

    def add_network(self, tenant: Tenant | str, network: str | Path | DnnModel, **settings: Setting) -> None:
        """A network of a tenant: a name of the zoo, an ONNX file, or the network itself.

        ``settings``: deadline_ms, deadline_factor, deadline, slo, draw, priority; of ONNX files also name, batch, dims.
        """
        entry: Section = dict(settings)
        if isinstance(network, DnnModel):
            entry["model"] = network.name
            self._add_own(network)
        elif str(network).endswith(".onnx"):
            entry["onnx"] = str(network)
        else:
            entry["model"] = network
        self._tenant(tenant).setdefault("models", []).append(entry)

    def set_arrivals(self, tenant: Tenant | str, process: str | None = None, **settings: Setting) -> None:
        """When a tenant's requests arrive: a process with its settings, or trace = a format and path = a file."""
        self._tenant(tenant)["arrivals"] = _given({"process": process, **settings})

    def _tenant(self, tenant: Tenant | str) -> Section:
        name = tenant.name if isinstance(tenant, Tenant) else str(tenant)
        found: list[Section] = self._table["tenant"]
        for entry in found:
            if entry["name"] == name:
                return entry
        raise UnknownNameError("tenant", name, [str(entry["name"]) for entry in found])

    def _add_own(self, network: DnnModel) -> None:
        written, own = _network_table(network), self._table.setdefault("network", [])
        known = next((entry for entry in own if entry["name"] == network.name), None)
        if known is None:
            own.append(written)
        elif known != written:
            raise ConfigError(f"another network is called '{network.name}'; give this one a name of its own")

    # --- what is run --------------------------------------------------------------------------------------

    def set_engine(self, **settings: Setting) -> None:
        """How requests run: late, period_s, switch_s, estimator, ... (docs/scenarios.md)."""
        self._table.setdefault("engine", {}).update(settings)

    def set_policy(self, policy: PolicyLike) -> None:
        """What ``run`` uses: a name, FILE.py:FUNCTION, or a callable ``View -> [Assign]``."""
        self._table.pop("policy", None)
        self._policy = None
        if isinstance(policy, str):
            self._table["policy"] = policy
        else:
            self._policy = policy

    def set_policies(self, policies: Sequence[PolicyLike], **settings: Setting) -> None:
        """What ``compare`` and ``sweep`` use, names first; ``settings``: seeds, baseline."""
        _refuse_text("policies", policies)
        names = [policy for policy in policies if isinstance(policy, str)]
        self._policies = [policy for policy in policies if not isinstance(policy, str)]
        self._table["compare"] = {**({"policies": names} if names else {}), **settings}

    def vary(self, key: str, values: Sequence[Setting]) -> None:
        """An axis of ``sweep``: a key path of the scenario and its values."""
        _refuse_text(f"values of '{key}'", values)
        self._table.setdefault("sweep", {})[key] = list(values)

    # --- the scenario, and what comes of it -----------------------------------------------------------------

    def scenario(self) -> Scenario:
        """The scenario, checked. Raises ConfigError in the words of a scenario file."""
        return scenario_from(
            _plain_table(self._table), source=f"model '{self._table['name']}'", folder=Path.cwd()
        )

    def to_toml(self) -> str:
        """The resolved scenario as a file. Raises ConfigError where a policy is an object."""
        for policy in self._objects():
            raise ConfigError(
                f"policy '{policy_name(policy)}' is a Python object, which a scenario file cannot hold; put it into "
                "a file and name it FILE.py:FUNCTION"
            )
        return to_toml(self.scenario())

    def run(self, policy: PolicyLike | None = None, seed: int | None = None) -> InferenceRun:
        """Simulate once, under this policy or that of ``set_policy``."""
        chosen = policy if policy is not None else self._policy
        return run(self.scenario(), chosen, seed)

    def compare(
        self, policies: Sequence[PolicyLike] | None = None, seeds: int | None = None, bracket: int | None = None,
        **options: Unpack[BatchOptions],
    ) -> InferenceComparison:  # fmt: skip
        """Compare these policies, or those of ``set_policies``, on the same requests (``eunomia.compare``)."""
        return compare(self.scenario(), policies or self._compared(), seeds, bracket=bracket, **options)

    def sweep(
        self, policies: Sequence[PolicyLike] | None = None, seeds: int | None = None, **options: Unpack[BatchOptions]
    ) -> SweepResult[Scenario]:  # fmt: skip
        """Compare the policies at every point of what ``vary`` was given (``eunomia.sweep``)."""
        return sweep(self.scenario(), None, policies or self._compared(), seeds, **options)

    def _compared(self) -> list[PolicyLike] | None:
        if not self._policies:
            return None
        return [*self._table["compare"].get("policies", []), *self._policies]

    def _objects(self) -> list[PolicyLike]:
        return [*self._policies, *([] if self._policy is None else [self._policy])]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return self.scenario() == other.scenario() and self._objects() == other._objects()

    __hash__ = None  # type: ignore[assignment]  # models change

    def __repr__(self) -> str:
        tenants = ", ".join(str(entry["name"]) for entry in self._table["tenant"]) or "none"
        return f"Model('{self._table['name']}', duration_s={self._table['duration_s']}): tenants {tenants}"


def _refuse_text(what: str, given: object) -> None:
    """Raise ConfigError for a text or a single value where several are meant."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{what}: {given!r} is one value; give a list: [{given!r}]")


def _given(section: Section) -> Section:
    return {key: value for key, value in section.items() if value is not None}


def _plain_table(section: Mapping[str, object]) -> Section:
    """A section as a file gives it; keys without a value left out."""
    return {key: _plain(entry) for key, entry in section.items() if entry is not None}


def _plain(value: object) -> object:
    """Tuples as lists and mappings as dictionaries."""
    if isinstance(value, Mapping):
        return _plain_table(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


def _network_table(network: DnnModel) -> Section:
    """A network as a section [[network]]."""
    chain = tuple((n, n + 1) for n in range(len(network.layers) - 1))
    facts = {
        name: getattr(network, name) for name in ("source", "word_bytes", "folded_params", "shared_params")
    }
    edges = {} if network.edges == chain else {"edges": [list(edge) for edge in network.edges]}
    return {
        "name": network.name,
        "layers": [_layer_table(layer) for layer in network.layers],
        **edges,
        **facts,
    }


def _layer_table(layer: Layer) -> Section:
    """What differs from the defaults."""
    return {
        field.name: value for field in fields(Layer) if (value := getattr(layer, field.name)) != field.default
    }


def _device_table(kind: DeviceType) -> Section:
    """An accelerator type as the content of its file; what is infinite is left to its default."""
    table: Section = _finite(asdict(kind))
    return {**table, "kind": "gpu"} if isinstance(kind, GpuType) else table


def _finite(table: Section) -> Section:
    found = {key: _finite(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {
        key: value for key, value in found.items()
        if value is not None and not (isinstance(value, float) and math.isinf(value))
    }  # fmt: skip
