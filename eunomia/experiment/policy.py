"""A policy by name, from a file, or as an object: one spec that can travel between processes."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from eunomia.errors import ConfigError, UnknownNameError
from eunomia.inference.policies import POLICIES, load_policy
from eunomia.inference.policies.ordering import ORDERS, find_order

PolicyLike = Any  # a name, FILE.py:FUNCTION, or a policy object


def policy_name(policy: PolicyLike) -> str:
    """What a policy is called in tables, folders and reports."""
    if isinstance(policy, str):
        path, colon, attribute = policy.rpartition(":")
        return attribute if colon and path.endswith(".py") else policy
    name = getattr(policy, "name", None) or getattr(policy, "__name__", None) or type(policy).__name__
    return str(name).replace("<lambda>", "lambda").replace("/", "-")


def resolve_policy(policy: PolicyLike) -> Any:
    """The policy itself. Raises UnknownNameError for a name that nobody registered."""
    if not isinstance(policy, str):
        if not callable(policy):
            raise ConfigError(f"policy {policy!r} is neither a name nor callable with a View")
        return policy
    path, colon, attribute = policy.rpartition(":")
    return _from_file(Path(path), attribute) if colon and path.endswith(".py") else load_policy(policy)


def _from_file(path: Path, attribute: str) -> Any:
    if not path.is_file():
        raise ConfigError(f"there is no policy file {path}")
    name = f"eunomia_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        raise ConfigError(f"policy file {path} cannot be loaded: {type(error).__name__}: {error}") from error
    if not hasattr(module, attribute):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UnknownNameError(f"function in {path}", attribute, known)
    return getattr(module, attribute)


def policy_words() -> dict[str, str]:
    """Every named policy and every order with what its docstring says."""
    words = {name: inspect.getdoc(POLICIES.load(name)) or "" for name in POLICIES.names()}
    return {**{name: inspect.getdoc(find_order(name).key) or "" for name in ORDERS}, **words}
