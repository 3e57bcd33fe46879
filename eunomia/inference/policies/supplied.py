"""Policies as tables, packages and files supply them: functions of a View, classes, functions that make one."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import cast

from eunomia.contract.traits import RULES
from eunomia.contract.view import Policy, View
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.inference.policies.settings import Setting, checked_settings


def as_policy(found: object, what: str, settings: Mapping[str, Setting] | None = None) -> Policy:
    """The policy behind a name; ``what`` names it in errors.

    An object or a function of a View is a policy; settings are further arguments of the function. A class, or a
    function whose arguments all have defaults, makes a policy from settings. Raises ConfigError, UnknownNameError.
    """
    given = settings or {}
    if not (callable(found) and _makes_policies(found)):
        if not given:
            policy = found
        elif inspect.isfunction(found):
            policy = _with_arguments(found, what, given)
        else:
            raise ConfigError(f"{what} is set up already; it takes no settings")
    else:
        known = inspect.signature(found).parameters
        policy = _made(found, what, checked_settings(what, known, given))
        what = f"what {what} makes"
    return _checked_policy(policy, what)


def _made(found: Callable[..., object], what: str, settings: Mapping[str, Setting]) -> object:
    """What a class or function makes. Raises ConfigError with the place at which foreign code raised."""
    try:
        return found(**settings)
    except EunomiaError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigError(
            f"{what} makes no policy: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        ) from error


def _makes_policies(found: Callable[..., object]) -> bool:
    """Whether this is a class, or a function without a required argument whose first one is not the View."""
    if inspect.isclass(found):
        return True
    if not (inspect.isroutine(found) or isinstance(found, functools.partial)):
        return False
    kinds, parameters = inspect.Parameter, list(inspect.signature(found).parameters.values())
    if parameters and (parameters[0].name == "view" or parameters[0].annotation in (View, "View")):
        return False
    return all(p.default is not kinds.empty or p.kind is kinds.VAR_KEYWORD for p in parameters)


def _with_arguments(function: Callable[..., object], what: str, settings: Mapping[str, Setting]) -> object:
    """A function of a View with its further arguments set."""
    _, *others = inspect.signature(function).parameters.values()
    values = checked_settings(what, {p.name: p for p in others}, settings)
    return functools.update_wrapper(functools.partial(function, **values), function)


def _checked_policy(policy: object, what: str) -> Policy:
    """The same object; raises ConfigError where it cannot be called with one argument."""
    if RULES.of(policy) is not None and not inspect.isclass(policy):
        return cast(Policy, policy)  # machine code asks it
    if not callable(policy):
        shown = repr(policy) if type(policy).__module__ == "builtins" else f"a {type(policy).__name__}"
        raise ConfigError(f"{what} is {shown}, which cannot be called; it must be a function of a View")
    try:
        takes = inspect.signature(policy)
    except ValueError:  # a built-in function without a signature
        return policy
    try:
        takes.bind(None)
    except TypeError:
        raise ConfigError(f"{what} takes {takes}; it must take one argument, the View") from None
    return policy
