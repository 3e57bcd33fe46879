"""A policy by name, from a file, or as an object: one spec that can travel between processes."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.inference.policies import POLICIES, load_policy
from eunomia.inference.policies import policy_name as canonical_name
from eunomia.inference.policies.ordering import ORDERS, find_order
from eunomia.inference.policies.tuned import tuned_name

PolicyLike = Any  # name, FILE.py:FUNCTION, card of a learned policy, file of rules, or policy object
CARD = ".json"
RULES = ".toml"


def policy_name(policy: PolicyLike) -> str:
    """What a policy is called in tables, folders and reports."""
    if isinstance(policy, str):
        if policy.endswith((CARD, RULES)):
            return Path(policy).stem
        path, colon, attribute = policy.rpartition(":")
        return attribute if colon and path.endswith(".py") else canonical_name(policy)
    name = getattr(policy, "name", None) or getattr(policy, "__name__", None) or type(policy).__name__
    return str(name).replace("<lambda>", "lambda").replace("/", "-")


def resolve_policy(policy: PolicyLike) -> Any:
    """The policy itself. Raises UnknownNameError for a name that nobody registered."""
    if not isinstance(policy, str):
        if not callable(policy):
            raise ConfigError(f"policy {policy!r} is neither a name nor callable with a View")
        return checked(policy, f"policy '{policy_name(policy)}'")
    if policy.endswith(".py"):
        raise ConfigError(f"policy '{policy}' is a file; say which of its functions too: {policy}:FUNCTION")
    if policy.endswith(CARD):
        from eunomia.learning.load import load_policy as load_learned

        return load_learned(policy)
    if policy.endswith(RULES):
        from eunomia.learning.distill.file import load_rules
        from eunomia.learning.distill.policy import RulePolicy

        return RulePolicy(load_rules(policy))
    path, colon, attribute = policy.rpartition(":")
    if not (colon and path.endswith(".py")):
        return load_policy(policy)
    return checked(from_file(Path(path), attribute), f"policy '{attribute}' of {path}")


def checked(policy: Any, what: str) -> Any:
    """A Python policy whose answers are looked at; compiled ones pass through. Raises ConfigError."""
    if hasattr(policy, "rules"):
        return policy
    if not callable(policy):
        raise ConfigError(f"{what} is {policy!r}, which cannot be called; it must be a function of a View")
    if inspect.isclass(policy):
        raise ConfigError(f"{what} is a class; name an instance of it, or a function of a View")
    try:
        inspect.signature(policy).bind(None)
    except TypeError:
        takes = inspect.signature(policy)
        raise ConfigError(f"{what} takes {takes}; it must take one argument, the View") from None
    except ValueError:  # a built-in function without a signature
        pass
    return _Stateful(policy, what) if hasattr(policy, "reset") else _Checked(policy, what)


class _Checked:
    """Calls a policy and says by name when it answers with something else than a list of Assign."""

    def __init__(self, policy: Any, what: str) -> None:
        self._policy, self._what = policy, what
        self.parameters = getattr(policy, "parameters", ())
        self.blocks = getattr(policy, "blocks", ())

    def __call__(self, view: View) -> Sequence[Assign]:
        answer = self._policy(view)
        if not isinstance(answer, list | tuple) or not all(isinstance(entry, Assign) for entry in answer):
            raise PolicyError(f"{self._what} must return a list of Assign; it returned {_short(answer)}")
        return answer


class _Stateful(_Checked):
    """The same for a policy with ``reset``."""

    def reset(self, seed: int) -> None:
        """A run begins."""
        self._policy.reset(seed)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def from_file(path: Path, attribute: str) -> Any:
    """What a Python file calls ``attribute``. Raises ConfigError, UnknownNameError."""
    if not path.is_file():
        raise ConfigError(f"there is no policy file {path}")
    name = f"eunomia_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's file raises
        raise ConfigError(f"policy file {path} cannot be loaded: {type(error).__name__}: {error}") from error
    if not hasattr(module, attribute):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UnknownNameError(f"function in {path}", attribute, known)
    return getattr(module, attribute)


def policy_words() -> dict[str, str]:
    """Every named policy and every order with what its docstring says."""
    words = {name: inspect.getdoc(POLICIES.load(name)) or "" for name in POLICIES.names()}
    return {**{name: inspect.getdoc(find_order(name).key) or "" for name in ORDERS}, **words}


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
