"""Prices, watts and areas that a plan rests on and does not give: refused where none is given, else said."""

from __future__ import annotations

from eunomia.config.plan import PlanConfig, PricedConfig
from eunomia.core.errors import ConfigError

KEYS = {"cost": ("price", "rent_per_h"), "power_w": ("power_w",), "area_mm2": ("area_mm2",)}
TARGETS = {"cost": "cost", "power": "power_w", "area": "area_mm2"}  # what each target adds up


def check_prices(plan: PlanConfig) -> None:
    """Raises ConfigError where a target or a bound adds up what no device has."""
    for key, who in _read(plan).items():
        if not any(_has(one, key) for one in (*plan.device, *plan.memories)):
            wanted = " or ".join(KEYS[key])
            raise ConfigError(
                f"plan '{plan.name}': {who}, but no [[device]] has {wanted}; give it, or ask without it"
            )


def unpriced(plan: PlanConfig) -> list[str]:
    """Devices, and memories beside others that have it, which count as free, without power or without area."""
    said = []
    for key in _read(plan):
        names = [
            str(device.type or device.file or "table") for device in plan.device if not _has(device, key)
        ]
        if any(_has(memory, key) for memory in plan.memories):
            names += [f"memory of {one.gb_s:g} GB/s" for one in plan.memories if not _has(one, key)]
        if names:
            said.append(f"{', '.join(names)}: no {' or '.join(KEYS[key])} in the plan, counted as 0")
    return said


def _read(plan: PlanConfig) -> dict[str, str]:
    """What is added up, and for whom."""
    found = {
        key: f"bounds.{key} is {getattr(plan.bounds, key):g}" for key in KEYS if getattr(plan.bounds, key)
    }
    if plan.target in TARGETS:
        found[TARGETS[plan.target]] = f"target is {plan.target}"
    return found


def _has(one: PricedConfig, key: str) -> bool:
    return any(name in one.model_fields_set for name in KEYS[key])
