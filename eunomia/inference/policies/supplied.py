"""Policies as tables, packages and files supply them: functions of a View, classes, functions that make one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from eunomia.contract.traits import RULES
from eunomia.core.errors import ConfigError
from eunomia.inference.policies.settings import Setting, checked_settings


def as_policy(found: Any, what: str, settings: Mapping[str, Setting] | None = None) -> Any:
    """The policy behind a name; ``what`` names it in errors.

    An object or a function of a View is a policy; settings are further arguments of the function. A class, or a
    function whose arguments all have defaults, makes a policy from settings. Raises ConfigError, UnknownNameError.
    """
    given = settings or {}
    if not _makes_policies(found):
        if given and not inspect.isfunction(found):
            raise ConfigError(f"{what} is set up already; it takes no settings")
        policy = _with_arguments(found, what, given) if given else found
    else:
        known = inspect.signature(found).parameters
        policy = found(**checked_settings(what, known, given))
    _check_takes_view(policy, what)
    return policy


def _makes_policies(found: Any) -> bool:
    """Whether this is a class, or a function without a required argument."""
    if inspect.isclass(found):
        return True
    if not (inspect.isroutine(found) or isinstance(found, functools.partial)):
        return False
    kinds = inspect.Parameter
    return all(
        p.default is not kinds.empty or p.kind is kinds.VAR_KEYWORD
        for p in inspect.signature(found).parameters.values()
    )


def _with_arguments(function: Any, what: str, settings: Mapping[str, Setting]) -> Any:
    """A function of a View with its further arguments set."""
    _, *others = inspect.signature(function).parameters.values()
    values = checked_settings(what, {p.name: p for p in others}, settings)
    return functools.update_wrapper(functools.partial(function, **values), function)


def _check_takes_view(policy: Any, what: str) -> None:
    """Raises ConfigError for what cannot be called with one argument."""
    if RULES.of(policy) is not None and not inspect.isclass(policy):
        return
    if not callable(policy):
        raise ConfigError(f"{what} is {policy!r}, which cannot be called; it must be a function of a View")
    try:
        takes = inspect.signature(policy)
    except ValueError:  # a built-in function without a signature
        return
    try:
        takes.bind(None)
    except TypeError:
        raise ConfigError(f"{what} takes {takes}; it must take one argument, the View") from None
