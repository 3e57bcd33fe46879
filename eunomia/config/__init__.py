"""Scenarios: typed, closed to unknown keys, read from TOML."""

from eunomia.config.load import (
    as_table,
    demo_scenario,
    json_schema,
    load_scenario,
    scenario_from,
    to_json,
    to_toml,
    with_values,
)
from eunomia.config.scenario import Scenario

__all__ = ["Scenario", "as_table", "demo_scenario", "json_schema", "load_scenario", "scenario_from",
           "to_json", "to_toml", "with_values"]  # fmt: skip
