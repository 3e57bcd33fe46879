"""The base of every section of a scenario: strict, closed to unknown keys, with nearest-key hints."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from eunomia.core.errors import UnknownNameError
from eunomia.core.own_file import split_file

MAX_COUNT = 1_000_000


class Section(BaseModel):
    """A table of a scenario file. Unknown keys are refused; numbers must be numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: object) -> object:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    raise unknown_key(str(key), list(cls.model_fields))
        return data


def unknown_key(key: str, known: list[str]) -> PydanticCustomError:
    """The complaint about a key that a section does not have."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return PydanticCustomError("unknown_key", "unknown key '{key}'; {hint}it takes: {known}",
                               {"key": key, "hint": hint, "known": ", ".join(known)})  # fmt: skip


def unknown_name(key: str, kind: str, name: str, known: Iterable[str], also: str = "") -> PydanticCustomError:
    """The complaint about a name that nobody registered, with the nearest one."""
    return wrong(f"{key}: {UnknownNameError(kind, name, known)}{also}")


def wrong(sentence: str) -> PydanticCustomError:
    """A complaint about a section as a whole, in words."""
    return PydanticCustomError("wrong", "{sentence}", {"sentence": sentence})


def _absolute(value: object, info: ValidationInfo) -> object:
    """A file path relative to the scenario's folder, or, failing that, to the working directory."""
    folder = (info.context or {}).get("folder")
    if not isinstance(value, str) or folder is None:
        return value
    path = Path(value).expanduser()
    beside = Path(folder) / path
    if not beside.exists() and path.exists():
        beside = path
    return str(beside.resolve())


def _own_file_absolute(value: object, info: ValidationInfo) -> object:
    """The same for the file of ``FILE.py:NAME``; other names stay."""
    own = split_file(value) if isinstance(value, str) else None
    return value if own is None else f"{_absolute(str(own[0]), info)}:{own[1]}"


def _own_policy(value: object, info: ValidationInfo) -> object:
    """``FILE.py:NAME`` beside the file that names it; as it is where that is the file of the working directory, too."""
    folder, own = (info.context or {}).get("folder"), split_file(value) if isinstance(value, str) else None
    if own is None or folder is None:
        return value
    beside = (Path(folder) / own[0].expanduser()).resolve()
    return f"{beside}:{own[1]}" if beside.is_file() and beside != own[0].resolve() else value


FilePath = Annotated[str, Field(min_length=1), BeforeValidator(_absolute)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Name = Annotated[str, Field(min_length=1, max_length=80)]
NameOrFile = Annotated[
    str, Field(min_length=1, max_length=1000), BeforeValidator(_own_file_absolute)
]  # a registered name, or FILE.py:NAME beside the scenario
PolicyText = Annotated[
    str, Field(min_length=1, max_length=1000), BeforeValidator(_own_policy)
]  # a name with its settings, or FILE.py:FUNCTION
