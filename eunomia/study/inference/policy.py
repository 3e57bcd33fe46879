"""A policy by name, from a file, or as an object: one spec that can travel between processes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError
from eunomia.inference.policies import POLICIES, load_policy
from eunomia.inference.policies import policy_name as canonical_name
from eunomia.inference.policies.catalogue import own_policy
from eunomia.inference.policies.ordering import ORDERS, find_order
from eunomia.inference.policies.tuned import tuned_name

PolicyLike = Any  # name, FILE.py:FUNCTION, card of a learned policy, file of rules, or policy object
CARD = ".json"
RULES = ".toml"


def policy_name(policy: PolicyLike) -> str:
    """What a policy is called in tables, folders and reports."""
    if isinstance(policy, str) and policy.endswith((CARD, RULES)):
        return Path(policy).stem
    return canonical_name(policy)


def resolve_policy(policy: PolicyLike) -> Any:
    """The policy itself. Raises UnknownNameError for a name that nobody registered."""
    if not isinstance(policy, str):
        return own_policy(policy)
    if policy.endswith(".py"):
        raise ConfigError(f"policy '{policy}' is a file; say which of its functions too: {policy}:FUNCTION")
    if policy.endswith(CARD):
        from eunomia.learning.load import load_policy as load_learned

        return load_learned(policy)
    if policy.endswith(RULES):
        from eunomia.learning.distill.file import load_rules
        from eunomia.learning.distill.policy import RulePolicy

        return RulePolicy(load_rules(policy))
    return own_policy(policy)


def policy_words() -> dict[str, str]:
    """Every named policy and every order with what its docstring says."""
    words = {name: _words(name) for name in POLICIES.names()}
    return {**{name: inspect.getdoc(find_order(name).key) or "" for name in ORDERS}, **words}


def _words(name: str) -> str:
    """The docstring of a policy; of an installed package that cannot be imported, why."""
    try:
        return inspect.getdoc(POLICIES.load(name)) or ""
    except ConfigError as error:
        return str(error)


def describe_policy(name: str) -> str:
    """What a policy by any name does: the words of its family, and of a tuned one what was chosen.

    ``prema+tuned`` is explained by the settings that were chosen and PREMA's words. Raises ConfigError.
    """
    known = policy_words()
    if name in known:
        return known[name]
    family, tuned, _ = name.strip().lower().rpartition("+tuned")
    chosen = tuned_name(family) if tuned else name
    policy = load_policy(chosen)
    words = known.get(re.split(r"[(+-]", chosen.strip().lower())[0]) or inspect.getdoc(type(policy)) or ""
    return f"{chosen}, chosen on validation traces (results/tuning.md)\n\n{words}" if tuned else words
