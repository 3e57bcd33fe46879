"""Rules on disk: one TOML file that people read and edit, checked when it is read.

Nothing in it is code. A file that was edited still loads; it then says so, because the figures in it are those of
the rules before the change.
"""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

from eunomia.core.atomic import write_text
from eunomia.core.errors import ConfigError, RecordError
from eunomia.learning.distill.inputs import NAMES, PARTS, VALUES
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.distill.text import from_text, to_text
from eunomia.learning.distill.tree import LEAF
from eunomia.learning.observation.table import MEANINGS, VERSION

FORMAT = 1
FAMILY = "eunomia-rules"
KEYS = {"family", "format", "features", "name", "terms", "place", "gate", "rules", "ranges", "made"}


def save_rules(rules: RuleSet, path: str | Path) -> Path:
    """Write the file (ends in .toml). Raises OutputError."""
    target = Path(path) if Path(path).suffix == ".toml" else Path(f"{path}.toml")
    write_text(target, as_toml(rules))
    return target


def as_toml(rules: RuleSet) -> str:
    """The file's text: what decides first, where it comes from last."""
    gate = json.dumps(rules.gate) if math.isfinite(rules.gate) else "inf"
    lines = [
        f'family = "{FAMILY}"', f"format = {FORMAT}", f"features = {VERSION}  # version", f'name = "{rules.name}"',
        f'place = "{rules.place}"', f"gate = {gate}  # share of the bandwidth; inf = none", "",
        "[terms]  # the score of a waiting sub-job: the sum of these, plus the order rules",
        *(f"{name} = {json.dumps(value)}  # {MEANINGS[name]}" for name, value in rules.terms.items()), "",
        "[rules]",
    ]  # fmt: skip
    for part in PARTS:
        lines += [f"# {VALUES[part]}", f'{part} = """', to_text(rules.trees[part]) + '"""', ""]
    lines += [f"# {line}" for line in glossary(rules)]
    lines += ["", "[ranges]  # of features in training, for the alarm"]
    lines += [f"{name} = {json.dumps(list(limits))}" for name, limits in rules.ranges.items()]
    lines += ["", "[made]", *(f"{key} = {_toml(value)}" for key, value in rules.made.items())]
    return "\n".join(lines) + "\n"


def glossary(rules: RuleSet) -> list[str]:
    """The features that the rules ask about, with their units."""
    asked = {int(f) for tree in rules.trees.values() for f in tree.feature if f != LEAF}
    names = [NAMES[f] for f in sorted(asked)]
    width = max(map(len, names), default=0)
    return [f"{name:<{width}}  {MEANINGS[name]}" for name in names]


def load_rules(path: str | Path) -> RuleSet:
    """Read and check. Raises RecordError (file), ConfigError or UnknownNameError (a rule), naming the place."""
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}; give a file of eunomia distill") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} is not a file of rules: {error}") from None
    if data.get("family") != FAMILY:
        raise RecordError(f"{path} is not a file of rules ({FAMILY}); write one with: eunomia distill")
    for key, known, what in (("format", FORMAT, "format"), ("features", VERSION, "feature version")):
        if (found := data.get(key)) != known:
            raise RecordError(f"{path} has {what} {found}; this version reads {known}: distil it again")
    try:
        return _from_data(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__} {error}"
        raise ConfigError(f"{path}: {what}; compare it with a new file of rules") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _from_data(data: dict[str, Any]) -> RuleSet:
    unknown = sorted(set(data) - KEYS) + sorted(set(data["rules"]) - set(PARTS))
    if unknown:
        known = ", ".join(sorted(KEYS))
        raise ConfigError(f"unknown key '{unknown[0]}'; known are {known}, and rules of {PARTS}")
    trees = {part: from_text(data["rules"].get(part, "0"), part) for part in PARTS}
    terms = {name: float(value) for name, value in data["terms"].items()}
    if not all(map(math.isfinite, terms.values())):
        raise ConfigError("a weight in [terms] is not a finite number")
    ranges = {name: (float(low), float(high)) for name, (low, high) in data.get("ranges", {}).items()}
    gate, made = float(data["gate"]), data.get("made", {})
    return RuleSet(data["name"], terms, data["place"], gate, trees, ranges, made)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan and inf, as TOML has them
    return json.dumps(value)
