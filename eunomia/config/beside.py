"""The TOML file beside a network of ``models_dir``: ``NAME.toml``, or ``NAME/config.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from eunomia.config.complaints import config_error
from eunomia.config.load import read_table
from eunomia.config.section import FilePath, Section
from eunomia.config.trial_shapes import TrialShapes, check_sizes


class BesideConfig(Section):
    """Four keys of ``[[network]]``; the others follow from the file's place."""

    shapes: TrialShapes = Field(default_factory=dict)
    empty: bool | None = None
    rows_apart: bool | None = None
    labels: dict[str, FilePath] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        check_sizes(self.shapes, self.empty)
        return self


def beside_from(path: Path) -> BesideConfig:
    """Raises ConfigError."""
    table = read_table(path, "file beside a network")
    try:
        return BesideConfig.model_validate(table, context={"folder": path.parent})
    except ValidationError as error:
        raise config_error(error, table, str(path)) from None
