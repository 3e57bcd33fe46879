"""Settings of a published scheduler in its name: ``herald(theta=0.2,metric=energy)``, ``dream(alpha=5)+g0.9``."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping

from eunomia.core.errors import ConfigError, UnknownNameError

CALL = re.compile(r"(?P<name>[\w-]+)\((?P<settings>[^()]*)\)(?:\+g(?P<gate>\d*\.?\d+))?")
Setting = float | bool | str
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def split_call(name: str, fold: bool = True) -> tuple[str, dict[str, Setting]] | None:
    """(scheduler, settings) of ``name(key=value,...)[+gX]``; None for a name of another form. Raises ConfigError.

    ``fold``: upper case counts as lower case.
    """
    text = name.strip().replace(" ", "")
    found = CALL.fullmatch(text.lower() if fold else text)
    if found is None:
        return None
    settings: dict[str, Setting] = {}
    for entry in filter(None, found["settings"].split(",")):
        key, equals, value = entry.partition("=")
        if not equals or not value:
            raise ConfigError(f"policy '{name}': '{entry}' is no setting; write key=value, such as theta=0.2")
        if key in settings:
            raise ConfigError(f"policy '{name}' sets {key} twice")
        settings[key] = _value(value)
    if found["gate"] is not None:
        if "gate" in settings:
            raise ConfigError(f"policy '{name}' has two gates; give one of them")
        settings["gate"] = float(found["gate"])
    return found["name"], settings


def call_name(name: str, settings: dict[str, Setting]) -> str:
    """The one way to write a scheduler with these settings: keys in alphabetical order, the gate last."""
    gate = settings.get("gate", math.inf)
    inner = ",".join(f"{key}={_text(value)}" for key, value in sorted(settings.items()) if key != "gate")
    text = f"{name}({inner})" if inner else name
    return f"{text}+g{gate:g}" if isinstance(gate, float) and math.isfinite(gate) else text


def checked_settings(
    what: str, known: Mapping[str, inspect.Parameter], settings: Mapping[str, Setting]
) -> dict[str, Setting]:
    """The settings as arguments of a function with these parameters; ``what`` names it in errors.

    A value must be like the default; without a default anything goes, and a whole number where ``int`` is annotated.
    Raises UnknownNameError for a setting that the function does not have, ConfigError for one that it lacks.
    """
    for key in settings:
        if key not in known:
            raise UnknownNameError("setting", key, known, f" of {what}")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and parameter.kind not in VARIADIC and key not in settings:
            raise ConfigError(f"{what} needs {key}; write it as {key}=VALUE in parentheses")
    return {key: _checked(what, key, value, known[key]) for key, value in settings.items()}


def _checked(what: str, key: str, value: Setting, parameter: inspect.Parameter) -> Setting:
    default, whole = parameter.default, parameter.annotation in (int, "int")
    if default is not parameter.empty:
        numeric = isinstance(default, int | float) and not isinstance(default, bool)
        if type(value) is not type(default) and not (numeric and isinstance(value, float)):
            raise ConfigError(f"{what}: {key} is {_text(value)}; it must be like {_text(default)}")
        if isinstance(value, float) and math.isnan(value):
            raise ConfigError(f"{what}: {key} is nan; it must be a number such as {_text(default)}")
        whole = type(default) is int
    if whole and not (isinstance(value, float) and value.is_integer()):
        raise ConfigError(f"{what}: {key} is {_text(value)}; it must be a whole number")
    return int(value) if whole else value


def _value(text: str) -> Setting:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else str(value)
