"""The TOML file beside a network of ``models_dir``: ``NAME.toml``, or ``NAME/config.toml``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from eunomia.config.complaints import config_error
from eunomia.config.load import read_table
from eunomia.config.section import FilePath, Section
from eunomia.config.server import Count


class BesideConfig(Section):
    """Three keys of ``[[network]]``; the others follow from the file's place."""

    shapes: dict[str, list[Count]] = Field(default_factory=dict)
    empty: bool = False
    labels: dict[str, FilePath] = Field(default_factory=dict)


def beside_from(path: Path) -> BesideConfig:
    """Raises ConfigError."""
    table = read_table(path, "file beside a network")
    try:
        return BesideConfig.model_validate(table, context={"folder": path.parent})
    except ValidationError as error:
        raise config_error(error, table, str(path)) from None
