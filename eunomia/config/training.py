"""A training file: what a policy is trained on, for which objective, in which stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from eunomia.config.algorithm import Algorithm, PlacementAlgorithm
from eunomia.config.complaints import config_error
from eunomia.config.load import read_table
from eunomia.config.overrides import Table, apply_overrides, flatten, parse_overrides
from eunomia.config.section import FilePath, Name, Positive, Section, Share, wrong
from eunomia.contract.objectives import TenantObjective
from eunomia.core.own_file import as_path

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Drawn = Annotated[int, Field(ge=1_000_000)]  # number of a place; those below are the exam's
Values = Annotated[list[Any], Field(min_length=1)]
Stage = Literal["linear", "sharing", "whole", "hidden", "pointer"]
NETWORKS = ("hidden", "pointer")  # stages that train a network
Trainer = Literal["evolution", "expert"]


class StageConfig(Section):
    """One stage: which weights are trained, by what, and how long. Later stages go on from the earlier ones.

    ``evolution`` searches by CMA-ES; ``expert`` learns the order from rollouts (not of a pointer); its generations
    are rounds of labels.
    """

    stage: Stage = "linear"
    trainer: Trainer = "evolution"
    generations: Count = 60
    population: Annotated[int, Field(ge=0, le=10_000)] = 16  # 0 = 4 + 3 ln n
    episodes: Count = 8  # per generation, shared by its population
    sigma: Positive = 0.3
    units: Annotated[int, Field(ge=1, le=256)] = 8  # of hidden and pointer stages
    diagonal: bool = False  # learn variances only: for hundreds of weights
    validate_every: Count = 5
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1  # expert: of decision points that are labelled
    price: Annotated[float, Field(ge=0.0)] = 0.7  # expert: of the work of a mean request, in hits
    rule: str = "best"  # expert: what rollouts follow; best = the heuristic of validation

    @model_validator(mode="after")
    def _trainable(self) -> Self:
        if self.trainer == "expert" and self.stage in ("sharing", "pointer"):
            raise wrong(
                f"expert iteration trains linear and hidden stages; a {self.stage} one is left to evolution"
            )
        return self


class TrainingConfig(Section):
    """Episodes are drawn from ``scenarios`` and ``places``, changed by one value of each key of ``vary``."""

    name: Name
    description: str = ""
    scenarios: list[FilePath] = Field(default_factory=list)  # needed but for placement, or beside places
    places: Annotated[list[Drawn], Field(min_length=2, max_length=2)] | None = None  # drawn: first and last
    vary: dict[str, Values] = Field(default_factory=dict)  # key path -> values
    objective: dict[str, float] = Field(default_factory=lambda: {"hit_rate": 1.0})
    promise: TenantObjective | None = None  # train what promised hit rates ask for, with this objective
    targets: Annotated[list[Share], Field(min_length=2, max_length=2)] | None = (
        None  # drawn per pair and episode
    )
    base: str = "best"  # a heuristic such as edf+f+eft+g0.9; best = chosen on validation episodes
    start_from: FilePath | None = None  # a checkpoint, or a shipped policy, to go on from
    requests: Count = 500  # per episode, at most
    validation: Count = 24  # episodes
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    stage: list[StageConfig] = Field(default_factory=lambda: [StageConfig()], min_length=1)
    algorithm: Algorithm | None = None  # a gradient trainer in place of the stages

    @model_validator(mode="before")
    @classmethod
    def _flat_vary(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("vary"), dict):
            return {**data, "vary": flatten(data["vary"])}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not (self.scenarios or self.places or isinstance(self.algorithm, PlacementAlgorithm)):
            raise wrong(
                "scenarios is empty; name at least one scenario file to draw episodes from, or places"
            )
        if self.places is not None and self.places[0] > self.places[1]:
            raise wrong(f"places are {self.places}; give the first one first")
        if self.targets is not None and self.targets[0] > self.targets[1]:
            raise wrong(f"targets are {self.targets}; give the least first")
        networks = [stage.stage for stage in self.stage if stage.stage in NETWORKS]
        if len(set(networks)) > 1:
            raise wrong("a policy has one kind of network; choose hidden or pointer stages")
        if self.algorithm is not None and {"stage", "start_from", "promise"} & self.model_fields_set:
            raise wrong(
                "an algorithm stands in place of stages, start_from and promise; give one or the other"
            )
        return self


def load_training(path: str | Path, overrides: tuple[str, ...] = ()) -> TrainingConfig:
    """Read a training file (TOML). Relative paths inside mean: beside the file. Raises ConfigError."""
    path = as_path(path, "a training file")
    return training_from(read_table(path, "training file"), overrides, str(path), path.parent)


def training_from(
    content: Table, overrides: tuple[str, ...] = (), source: str = "training", folder: Path | None = None
) -> TrainingConfig:
    """The same from a dictionary."""
    data = apply_overrides(content, parse_overrides(overrides))
    try:
        return TrainingConfig.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        raise config_error(error, data, source) from None
