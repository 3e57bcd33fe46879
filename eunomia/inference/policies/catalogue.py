"""Policies by name: a table for those with names of their own, a grammar for order x placement.

``order[+f][+placement][+gX]``: ``edf``, ``llf+f``, ``edf+f+eft``, ``edf+eft+g0.9``. ``-`` works as
``+``, and ``feasible`` as ``f``: ``edf-feasible-eft``. A published scheduler takes the gate alone: ``prema+g0.9``,
and its settings in parentheses: ``herald(theta=0.2)+g0.9``. ``prema+tuned`` has the settings of tuned.json.
"""

from __future__ import annotations

import inspect
import math
import re
from typing import TYPE_CHECKING

from eunomia.contract.traits import NAME, title, title_in_file
from eunomia.contract.view import Policy
from eunomia.core.errors import ConfigError, EunomiaError, PolicyError, UnknownNameError
from eunomia.core.registry import Registry
from eunomia.inference.kernel.setup import PLACEMENTS
from eunomia.inference.policies.dysta import DYSTA
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.moca import MOCA
from eunomia.inference.policies.ordering import ORDERS
from eunomia.inference.policies.planaria import PLANARIA
from eunomia.inference.policies.settings import call_name, split_call
from eunomia.inference.policies.supplied import as_policy
from eunomia.inference.policies.tenant_gap import TENANT_ORDERS
from eunomia.inference.policies.tuned import tuned_name

if TYPE_CHECKING:
    from eunomia.inference.policies.balancing import Queueing

OWN_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)(?P<call>\(.*\))?")
ORDERS.update({order.name: order for order in (PLANARIA, MOCA, DYSTA, *TENANT_ORDERS)})

POLICIES = Registry(
    "policy",
    "eunomia.policies",
    {
        "met": "eunomia.inference.policies.catalogue:met",
        "opportunistic": "eunomia.inference.policies.catalogue:opportunistic",
        "ca_eft": "eunomia.inference.policies.catalogue:contention_aware_eft",
        "round_robin": "eunomia.inference.policies.catalogue:round_robin",
        "random": "eunomia.inference.policies.catalogue:random",
        "least_loaded": "eunomia.inference.policies.catalogue:least_loaded",
        "throttled": "eunomia.inference.policies.catalogue:throttled",
        "min_min": "eunomia.inference.policies.batch_mapping:min_min",
        "max_min": "eunomia.inference.policies.batch_mapping:max_min",
        "prema": "eunomia.inference.policies.prema:prema",
        "herald": "eunomia.inference.policies.herald:herald",
        "magma": "eunomia.inference.policies.magma:magma",
        "magma_10k": "eunomia.inference.policies.magma:magma_10k",
        "planaria": "eunomia.inference.policies.planaria:planaria",
        "moca": "eunomia.inference.policies.moca:moca",
        "moca_split": "eunomia.inference.policies.moca:moca_split",
        "aurora": "eunomia.inference.policies.aurora:aurora",
        "dream": "eunomia.inference.policies.dream:dream",
        "dream_drop": "eunomia.inference.policies.dream:dream_drop",
        "dysta": "eunomia.inference.policies.dysta:dysta",
        "virtual_deadlines": "eunomia.inference.policies.virtual_deadlines:virtual_deadlines",
        "veltair": "eunomia.inference.policies.veltair:veltair",
        "layerweaver": "eunomia.inference.policies.layerweaver:layerweaver",
        "pressure": "eunomia.inference.policies.pressure:pressure",
        "blend": "eunomia.inference.policies.blend:blend",
        "pledge": "eunomia.inference.policies.pledge:pledge",
        "lookahead": "eunomia.inference.lookahead.policy:lookahead",
        "triage": "eunomia.inference.policies.tenant_gap:triage",
        "gap_first": "eunomia.inference.policies.tenant_gap:gap_first",
        "worst_first": "eunomia.inference.policies.tenant_gap:worst_first",
        "shift": "eunomia.inference.policies.tenant_gap:shift",
        "fair_edf": "eunomia.inference.policies.fair_edf:fair_edf",
        "weighted_fair": "eunomia.inference.policies.weighted_fair:weighted_fair",
        "irina": "eunomia.inference.policies.irina:irina",
        "olympian": "eunomia.inference.policies.olympian:olympian",
        "deferring": "eunomia.inference.policies.deferring:deferring",
        "eunomia": "eunomia.learning.load:eunomia",
        "eunomia-wide": "eunomia.learning.load:eunomia_wide",
        "eunomia-attainment": "eunomia.learning.load:eunomia_attainment",
        "eunomia-shortfall": "eunomia.learning.load:eunomia_shortfall",
        "eunomia-max-min": "eunomia.learning.load:eunomia_max_min",
        "relmas": "eunomia.learning.load:relmas",
        "relmas-slo": "eunomia.learning.load:relmas_slo",
    },
)


def met() -> Greedy:
    """Minimum execution time: first come, first served, each layer on its fastest type, busy or not."""
    return Greedy("fcfs", "pref")


def opportunistic() -> Greedy:
    """Opportunistic load balancing: the next sub-job to any idle accelerator, whatever its speed."""
    return Greedy("fcfs", "first_idle")


def contention_aware_eft() -> Greedy:
    """LLF, hopeless last, by earliest finish under the bandwidth that the layer itself would take."""
    return Greedy("llf", "eft_ca", feasible=True)


def round_robin() -> Queueing:
    """First come, first served, accelerators in turn."""
    return _queueing("round_robin")


def random() -> Queueing:
    """First come, first served, a random accelerator per sub-job."""
    return _queueing("random")


def least_loaded() -> Queueing:
    """First come, first served, the accelerator with the least queued work."""
    return _queueing("least_loaded")


def throttled() -> Queueing:
    """At most two sub-jobs per accelerator; the first with room, else wait."""
    return _queueing("throttled")


def _queueing(bind: str) -> Queueing:
    from eunomia.inference.policies.balancing import Queueing

    return Queueing(bind)


def load_policy(policy: str | Policy) -> Policy:
    """A policy object from its registered name; objects and functions pass through.

    Raises UnknownNameError, and ConfigError that names the policy where a setting in the name is out of range.
    """
    if not isinstance(policy, str):
        return policy
    try:
        return _named(policy)
    except PolicyError as error:  # a policy asked for wrongly, not one that answered wrongly
        raise ConfigError(f"policy '{policy}': {error}") from error


def own_policy(policy: str | Policy) -> Policy:
    """What the user of this machine calls a policy: a name, ``FILE.py:NAME[(key=value,...)]``, a class or an object.

    Importing runs the file. Raises what ``load_policy`` raises, and ConfigError for what is no policy.
    """
    if not isinstance(policy, str):
        return as_policy(policy, f"policy '{policy_name(policy)}'")
    file, name, call = _own_file(policy)
    if not file:
        return load_policy(policy)
    what = f"policy '{name}' of {file}"
    settings = split_call(f"{name}{call}", fold=False) if call else None
    try:
        return as_policy(POLICIES.resolve(f"{file}:{name}"), what, settings[1] if settings else None)
    except PolicyError as error:
        raise ConfigError(f"{what}: {error}") from error


def _own_file(policy: str) -> tuple[str, str, str]:
    """(file, name, settings in parentheses) of ``FILE.py:NAME(...)``; three times nothing for a registered name."""
    found = OWN_FILE.fullmatch(policy.strip())
    return (found["file"], found["name"], found["call"] or "") if found else ("", "", "")


def _named(policy: str) -> Policy:
    what = f"policy '{policy}'"
    if policy in POLICIES:
        return as_policy(POLICIES.load(policy), what)
    family, plus, _ = policy.strip().lower().rpartition("+tuned")
    if plus:
        return load_policy(tuned_name(family))
    call = split_call(policy)
    if call is not None:
        return as_policy(POLICIES.load(_registered(policy, call[0])), what, call[1])
    name, plus, gate = policy.strip().lower().rpartition("+g")
    if plus and re.fullmatch(r"\d*\.?\d+", gate) and takes_gate(name):
        return as_policy(POLICIES.load(name), what, {"gate": float(gate)})
    return _greedy_by_grammar(policy)


def takes_gate(name: str) -> bool:
    """Whether a registered policy has the bandwidth gate as a setting: ``prema+g0.9``."""
    if name not in POLICIES:
        return False
    found = POLICIES.load(name)
    return callable(found) and "gate" in inspect.signature(found).parameters


def _registered(policy: str, name: str) -> str:
    """The registered spelling of a name with settings. Raises UnknownNameError."""
    spelling = {known.lower(): known for known in POLICIES.names()}.get(name)
    if spelling is None:
        raise UnknownNameError("policy with settings", name, POLICIES.names())
    return spelling


def policy_name(policy: str | Policy) -> str:
    """What to call a policy in tables: ``EDF+F`` and ``edf-feasible`` are ``edf+f``."""
    if isinstance(policy, str):
        if policy in POLICIES or policy.endswith("+tuned"):
            return policy
        file, own, settings = _own_file(policy)
        if own:
            return title_in_file(file, own) + settings.replace(" ", "")
        try:
            call = split_call(policy)
            if call is not None:
                return call_name(*call)
            return str(NAME.of(load_policy(policy)) or policy)
        except EunomiaError:
            return policy  # said where it is loaded
    return title(policy).replace("<lambda>", "lambda").replace("/", "-")


def _greedy_by_grammar(name: str) -> Greedy:
    text = name.strip().lower().replace("any-idle", "any_idle").replace("eft-ca", "eft_ca")
    order, *suffixes = re.split(r"[+-]", text)
    if order not in ORDERS:
        raise UnknownNameError("policy", name, {*POLICIES.names(), *ORDERS, "edf+f+eft", "edf+eft+g0.9"})
    feasible, place, opening = False, None, math.inf
    for suffix in suffixes:
        if suffix == "g":
            raise ConfigError(f"policy '{name}': a gate is a positive number after +g, such as edf+g0.9")
        gate = re.fullmatch(r"g(\d*\.?\d+)", suffix)
        if suffix in ("f", "feasible"):
            feasible = True
        elif suffix in PLACEMENTS and place is not None:
            raise ConfigError(f"policy '{name}' has two placements, {place} and {suffix}; give one of them")
        elif suffix in PLACEMENTS:
            place = suffix
        elif gate:
            opening = float(gate[1])
        else:
            raise UnknownNameError("suffix", suffix, ["f", *PLACEMENTS, "g0.9"], f" in policy '{name}'")
    return Greedy(order, place or "any_idle", feasible, opening)
