"""Every key of every file that Eunomia reads, from the typed models that read them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args

from checks.site.reference.words import cell, code, prose

HEAD = """# Every key of a file

Made from the typed models that check the files: each table lists the keys of one section. A key without a default is
required; unknown keys are refused. `--set KEY=VALUE` changes any of them
([how](../docs/cli.md#options-that-several-verbs-share)).
"""
FILES = {  # title -> the model that reads such a file, and its guide
    "Scenario": ("eunomia.config.scenario:Scenario", "scenarios.md"),
    "Plan": ("eunomia.config.plan:PlanConfig", "plan.md"),
    "Study": ("eunomia.config.study:Study", "study.md"),
    "Training": ("eunomia.config.training:TrainingConfig", "learning.md"),
    "Server": ("eunomia.config.server:ServerConfig", "serving.md"),
    "Load": ("eunomia.config.traffic:LoadConfig", "serving.md"),
    "Cluster": ("eunomia.config.cluster:ClusterConfig", "cluster.md"),
    "Pool of a cluster": ("eunomia.config.cluster_worlds:PoolConfig", "cluster.md"),
    "Deferrable jobs of a cluster": ("eunomia.config.cluster_worlds:DeferrableConfig", "cluster.md"),
}
REMARK = re.compile(r"^\s{4}(?P<key>\w+):[^#\n]*#\s*(?P<remark>.+)$", re.MULTILINE)


def settings() -> str:
    """One section per file, one table per section of it."""
    return HEAD + "".join(_file(title, *where) for title, where in FILES.items())


def _file(title: str, where: str, guide: str) -> str:
    module, _, name = where.partition(":")
    found = sections(getattr(import_module(module), name))
    tables = "".join(_table(place, section) for place, section in found)
    return f"\n## {title}\n\nGuide: [{guide}](../docs/{guide}).\n{tables}"


def sections(model: Any, place: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """A model and the models of its keys, each with the path that leads to it."""
    yield place, model
    for key, field in model.model_fields.items():
        for inner in models_in(field.annotation):
            if inner not in above and inner is not model:
                path = f"{place}.{key}" if place else key
                yield from sections(inner, path, (*above, model))


def models_in(annotation: Any) -> list[Any]:
    """The sections that a type mentions."""
    if inspect.isclass(annotation) and hasattr(annotation, "model_fields"):
        return [annotation]
    return [inner for part in get_args(annotation) for inner in models_in(part)]


def _table(place: str, model: Any) -> str:
    title = f"`{place}`" if place else "the top of the file"
    remarks = dict(REMARK.findall(inspect.getsource(model)))
    rows = "".join(_row(key, field, remarks.get(key, "")) for key, field in model.model_fields.items())
    head = "| key | type | default | remark |\n|---|---|---|---|\n"
    return f"\n**{title}** ({model.__name__}). {prose(model)}\n\n{head}{rows}"


def _row(key: str, field: Any, remark: str) -> str:
    words = cell(remark or field.description or "")
    return f"| {code(key)} | {code(kind(field))} | {_default(field)} | {words} |\n"


def kind(field: Any) -> str:
    """A type in short, with its bounds."""
    text = re.sub(r"typing\.|(?:\w+\.)+(?=\w)", "", _plain(field.annotation)).replace("NoneType", "None")
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    bounds = [
        f"{signs[name]} {getattr(rule, name):g}"
        for rule in field.metadata
        for name in signs
        if abs(getattr(rule, name, None) or 0.0) < 1e12 and getattr(rule, name, None) is not None
    ]
    return ", ".join([text, *bounds])


def _plain(annotation: Any) -> str:
    """A type without the validators that come with it."""
    text = (
        annotation.__name__ if inspect.isclass(annotation) and not get_args(annotation) else str(annotation)
    )
    text = re.sub(r"Annotated\[([^,\[\]]+(?:\[[^\]]*\])?), [^\]]*\]", r"\1", text)
    return text if len(text) <= 90 else text[:87] + "..."


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default_factory() if field.default_factory else field.default
    text = str(value)
    return "" if value in (None, "") else code(text if len(text) <= 40 else "see its keys")
