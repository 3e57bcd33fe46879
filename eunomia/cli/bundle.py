"""Options of a verb as the fields of a dataclass, so that verbs pass one value on instead of a dozen."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import ParamSpec, TypeVar, get_type_hints

P = ParamSpec("P")
T = TypeVar("T")


def bundled(verb: Callable[P, T]) -> Callable[..., T]:
    """The verb as typer shall see it: each parameter that is a dataclass is replaced by the fields of that class.

    A field's annotation is what it would be as a parameter, ``Annotated[..., typer.Option(...)]``.
    """
    hints = get_type_hints(verb, include_extras=True)
    bundles = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(verb).parameters.items():
        if name in bundles:
            types = get_type_hints(bundles[name], include_extras=True)
            shown += [_parameter(field, types[field.name]) for field in fields(bundles[name])]
        else:
            shown.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(verb)
    def called(*args: object, **given: object) -> T:
        for name, bundle in bundles.items():
            own = {field.name: given.pop(field.name) for field in fields(bundle)}
            given[name] = bundle(**own)
        return verb(*args, **given)  # type: ignore[arg-type]

    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return called


def _parameter(field: Field[object], annotation: object) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
