"""The ``[platform]`` section: which accelerators, how much memory bandwidth, how it is shared."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from eunomia.config.section import FilePath, Name, NameOrFile, Positive, Section, unknown_name, wrong
from eunomia.contract.contention import CONTENTION, Contention
from eunomia.core.data import Data
from eunomia.hardware.accelerator import Mapper
from eunomia.hardware.platform import platform_names
from eunomia.hardware.types import is_type, type_names


class AcceleratorConfig(Section):
    """Several equal accelerators: ``{ type = "simba", count = 4 }``, or a data file of one's own."""

    type: NameOrFile | None = None
    file: FilePath | None = None
    table: Data | None = None  # the content of such a file
    count: Annotated[int, Field(ge=1, le=4096)] = 1
    clock_mhz: Positive | None = None  # one of the type's operating points; None = its own clock

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(source is not None for source in (self.type, self.file, self.table)) != 1:
            raise wrong(
                "give either type = an accelerator type by name, or file = a TOML file that describes one, or "
                "table = the content of such a file"
            )
        return self


class SlowdownConfig(Section):
    """How much networks slow each other, for contention ``matrix``: a file of ``eunomia profile corun``, or numbers."""

    file: FilePath | None = None  # target,neighbours,kind,slowdown
    kind: Name | None = None  # of place, such as "own core"; None = the only one of the file
    column: Literal["slowdown", "cpu_slowdown"] = "slowdown"
    pairs: dict[str, dict[str, Positive]] | None = None  # target -> neighbour, or A+B, -> slowdown
    missing: Literal["refuse", "none", "mean", "factorised", "completed"] = "refuse"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.pairs is None):
            raise wrong(
                "give either file = a table of co-runs, or pairs = { target = { neighbour = slowdown } }"
            )
        return self


class PlatformConfig(Section):
    """A preset by name, or a list of accelerators with the DRAM bandwidth that they share."""

    preset: Name | None = None
    accelerators: list[AcceleratorConfig] | None = Field(default=None, min_length=1)
    dram_bandwidth_gb_s: Positive | None = None  # None = the preset's
    contention: Contention | None = None  # None = the preset's, else proportional
    slowdowns: SlowdownConfig | None = None  # for contention that is measured by network
    mapper: Mapper | None = None  # None = that of each type
    memory_gb: Positive | None = None  # of the DRAM that all share; None = whatever the networks need
    fusion: Annotated[int, Field(ge=2, le=64)] | None = None  # layers that may run as one; None = one by one
    cost_csv: FilePath | None = None  # measured costs that replace the model's

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.preset is None) == (self.accelerators is None):
            raise wrong("give either preset = a platform's name, or accelerators = [{ type =, count = }]")
        if self.preset is None and self.dram_bandwidth_gb_s is None:
            raise wrong("dram_bandwidth_gb_s is missing: the bandwidth that all accelerators share, in GB/s")
        if self.fusion is not None and self.cost_csv is not None:
            raise wrong(
                "fusion is for modelled costs, cost_csv has measured ones of single layers; leave one out"
            )
        return self

    @model_validator(mode="after")
    def _has_slowdowns(self) -> Self:
        if self.contention is None and self.slowdowns is not None:
            raise wrong('slowdowns are given, but contention is not; write contention = "matrix"')
        if self.contention is not None and CONTENTION[self.contention].beside and self.slowdowns is None:
            raise wrong(f"contention '{self.contention}' needs slowdowns = {{ file = a table of co-runs }}")
        return self

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        """Types and presets exist; the types of a cost_csv are those of that file."""
        if self.preset is not None and self.preset not in platform_names():
            raise unknown_name("preset", "platform", self.preset, platform_names())
        for number, entry in enumerate(self.accelerators or []):
            name = entry.type
            if self.cost_csv is None and name is not None and not is_type(name):
                also = f"; write file = '{name}' for a file of your own" if name.endswith(".toml") else ""
                raise unknown_name(
                    f"accelerators.{number}.type", "accelerator type", name, type_names(), also
                )
        return self
