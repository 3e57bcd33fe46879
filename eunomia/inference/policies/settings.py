"""Settings of a published scheduler in its name: ``herald(theta=0.2,metric=energy)``, ``dream(alpha=5)+g0.9``."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

from eunomia.core.errors import ConfigError, UnknownNameError

CALL = re.compile(r"(?P<name>\w+)\((?P<settings>[^()]*)\)(?:\+g(?P<gate>\d*\.?\d+))?")
Setting = float | bool | str


def split_call(name: str) -> tuple[str, dict[str, Setting]] | None:
    """(scheduler, settings) of ``name(key=value,...)[+gX]``; None for a name of another form. Raises ConfigError."""
    found = CALL.fullmatch(name.strip().lower().replace(" ", ""))
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


def with_settings(name: str, scheduler: Callable[..., Any], settings: dict[str, Setting]) -> Any:
    """The scheduler with these settings. Raises UnknownNameError for a setting that it does not have."""
    known = inspect.signature(scheduler).parameters
    for key in settings:
        if key not in known:
            raise UnknownNameError("setting", key, known, f" of policy '{name}'")
    for key, value in settings.items():
        default = known[key].default
        numeric = isinstance(default, int | float) and not isinstance(default, bool)
        if type(value) is not type(default) and not (numeric and isinstance(value, float)):
            raise ConfigError(f"policy '{name}': {key} is {_text(value)}; it must be like {_text(default)}")
        if isinstance(value, float) and math.isnan(value):
            raise ConfigError(f"policy '{name}': {key} is nan; it must be a number such as {_text(default)}")
        if type(default) is int and not float(value).is_integer():
            raise ConfigError(f"policy '{name}': {key} is {_text(value)}; it must be a whole number")
    whole = {key: int(value) for key, value in settings.items() if type(known[key].default) is int}
    return scheduler(**{**settings, **whole})


def _value(text: str) -> Setting:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:g}"
