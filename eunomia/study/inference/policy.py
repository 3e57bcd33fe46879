"""A policy by name, from a file, or as an object: one spec that can travel between processes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.policies import POLICIES, load_policy
from eunomia.inference.policies import policy_name as canonical_name
from eunomia.inference.policies.catalogue import own_policy
from eunomia.inference.policies.ordering import ORDERS, find_order
from eunomia.inference.policies.tuned import tuned_name

# a name, FILE.py:FUNCTION, the card of a learned policy, a file of rules, or the policy itself
PolicyLike = str | Callable[..., Any]
CARD = ".json"
RULES = ".toml"
POLICY_KINDS, FILE_LIKE = ("policy", "policy with settings"), re.compile(r"[:/\\]|\.[a-z]")
FORMS = "a policy is a registered name, FILE.py:FUNCTION, a checkpoint (FILE.json) or rules (FILE.toml)"


def policy_name(policy: PolicyLike) -> str:
    """What a policy is called in tables, folders and reports."""
    if isinstance(policy, str) and policy.endswith((CARD, RULES)):
        return Path(policy).stem
    return canonical_name(policy)


def resolve_policy(policy: PolicyLike) -> PolicyLike:
    """The policy itself. Raises UnknownNameError for a name that nobody registered; unlike any, it may be a file."""
    found: PolicyLike
    if not isinstance(policy, str):
        found = own_policy(policy)
    elif policy.endswith(".py"):
        raise ConfigError(f"policy '{policy}' is a file; say which of its functions too: {policy}:FUNCTION")
    elif policy.endswith(CARD):
        from eunomia.learning.load import load_policy as load_learned

        found = load_learned(policy)
    elif policy.endswith(RULES):
        from eunomia.learning.distill.file import load_rules
        from eunomia.learning.distill.policy import RulePolicy

        found = RulePolicy(load_rules(policy))
    else:
        try:
            found = own_policy(policy)
        except UnknownNameError as error:
            if error.kind in POLICY_KINDS and (not error.near or FILE_LIKE.search(policy)):
                error.args = (f"{error}; {FORMS}",)
            raise
    return found


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
