"""Settings of a search for rules (``eunomia evolve``)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError

from eunomia.config.complaints import config_error
from eunomia.config.section import Section, Share
from eunomia.core.data import Data

Count = Annotated[int, Field(ge=1, le=1_000_000)]


class EvolveConfig(Section):
    """How long and how widely a search of rules goes; it depends on nothing else but its episodes."""

    generations: Count = 40
    population: Annotated[int, Field(ge=8, le=10_000)] = 32
    episodes: Count = 8  # per generation, shared by its population
    nodes: Annotated[int, Field(ge=4, le=40)] = 40  # of a rule, at most
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    price: Annotated[float, Field(ge=0.0)] = 2e-5  # of a node, in the objective
    archive: Annotated[int, Field(ge=1, le=1_000)] = 16  # unlike rules that are kept
    apart: Share = 0.1  # the least share of noted decisions in which two of them differ
    validate_every: Count = 5


def settings_of(values: Data) -> EvolveConfig:
    """Checked settings. Raises ConfigError."""
    try:
        return EvolveConfig.model_validate(values)
    except ValidationError as error:
        raise config_error(error, values, "evolve") from None
