"""Files and dictionaries to scenarios, and back to text."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from eunomia.config.complaints import config_error
from eunomia.config.overrides import Table, apply_overrides, parse_overrides
from eunomia.config.scenario import Scenario
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.core.own_file import as_path

DEEP = "{} has tables or lists too deep in each other; a {} has few levels"


def load_scenario(path: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario file (TOML; YAML where PyYAML is installed). ``overrides`` are ``a.b=c`` texts.

    Relative paths inside mean: beside the file. Raises ConfigError naming file, key path, value and
    what is allowed.
    """
    path = as_path(path, "a scenario")
    return scenario_from(read_table(path), overrides, source=str(path), folder=path.parent)


def demo_scenario(overrides: Iterable[str] = ()) -> Scenario:
    """The scenario of ``eunomia demo``."""
    text = resources.files("eunomia").joinpath("data/demo.toml").read_text(encoding="utf-8")
    return scenario_from(tomllib.loads(text), overrides, source="demo.toml")


def scenario_from(
    data: Table, overrides: Iterable[str] = (), source: str = "scenario", folder: Path | None = None
) -> Scenario:
    """Validate a dictionary. Raises ConfigError."""
    changed = apply_overrides(data, parse_overrides(overrides))
    try:
        return Scenario.model_validate(changed, context={"folder": folder})
    except ValidationError as error:
        raise config_error(error, changed, source) from None


def with_values(scenario: Scenario, values: Table) -> Scenario:
    """A copy with some values changed, by key path; validated again. Raises ConfigError."""
    changed = apply_overrides(as_table(scenario), values.items())
    try:
        return Scenario.model_validate(changed)
    except ValidationError as error:
        raise config_error(error, changed, f"scenario '{scenario.name}'") from None


def read_table(path: Path, what: str = "scenario") -> Table:
    """The raw content of a file; ``what`` it holds, for complaints. Raises ConfigError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}); a {what} is TOML") from None
    except OSError as error:
        beside = sorted(file.name for file in path.parent.glob("*.toml"))
        near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.7)
        remedy = f"did you mean {path.with_name(near[0])}?" if near else "give the path of a TOML file"
        raise ConfigError(f"cannot read the {what} {path}: {error.strerror}; {remedy}") from None
    if path.suffix in (".yaml", ".yml"):
        return _read_yaml(text, path, what)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(DEEP.format(path, what)) from None


def _read_yaml(text: str, path: Path, what: str) -> Table:
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ConfigError(f"{path}: YAML needs PyYAML (pip install pyyaml); TOML needs nothing") from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(DEEP.format(path, what)) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds no table of keys; a {what} starts with name = ...")
    return data


def as_table(scenario: Scenario) -> Table:
    """The resolved scenario as plain data; keys without a value are left out."""
    table: Table = scenario.model_dump(mode="json", exclude_none=True)
    return table


def to_toml(scenario: Scenario) -> str:
    """The resolved scenario as TOML; reading it back gives an equal scenario."""
    import tomli_w

    return tomli_w.dumps(as_table(scenario))


def to_json(scenario: Scenario) -> str:
    """The resolved scenario as JSON."""
    return json.dumps(as_table(scenario), indent=2)


def json_schema() -> Data:
    """JSON schema of a scenario, for editors."""
    return Scenario.model_json_schema()
