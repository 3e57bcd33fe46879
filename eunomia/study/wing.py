"""What one kind of experiment offers, so that runs, comparisons and sweeps are written once for all of them."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from eunomia.core.data import Data
from eunomia.core.records import Comparison
from eunomia.metrics.metric import Metric
from eunomia.study.result import ConfigT, RunResult
from eunomia.study.run import Reader

PolicyT = TypeVar("PolicyT")
Table = Data
UNDECIDED = ("compare", "sweep", "study", "policy")  # keys that play no part in what one run gives

_WINGS = {
    "inference": "eunomia.study.inference.wing:InferenceWing",
    "cluster": "eunomia.study.cluster.wing:ClusterWing",
}


class Wing(ABC, Generic[ConfigT, PolicyT]):
    """Configurations of one kind: how they are read, changed and run, and what their figures are called."""

    name: ClassVar[str]
    metrics: ClassVar[Mapping[str, Metric]]
    headlines: ClassVar[Sequence[str]]  # columns of the table of a comparison, in their order
    chart: ClassVar[str]  # the metric that is drawn unless another one is named
    grid_section: ClassVar[str]  # of the file, which lists the settings of a sweep
    result: ClassVar[Callable[..., Any]]  # what a comparison of this wing is
    measures_all: ClassVar[bool]  # whether a run without a folder needs its full tables, for its metrics

    def checked(self, config: Any, overrides: Iterable[str] = ()) -> ConfigT:
        """A configuration from itself, a file or a dictionary. Raises ConfigError."""
        return self.reader.checked(config, overrides)

    def table(self, config: ConfigT) -> Table:
        """The resolved configuration as plain data."""
        return self.reader.table(config)

    @property
    @abstractmethod
    def reader(self) -> Reader[ConfigT]:
        """How configurations are read and written."""

    @abstractmethod
    def changed(self, config: ConfigT, setting: Table) -> ConfigT:
        """A copy with some values changed, by key path. Raises ConfigError."""

    @abstractmethod
    def grid(self, config: ConfigT) -> Mapping[str, Sequence[object]]:
        """The settings of the file's sweep."""

    @abstractmethod
    def policy_name(self, policy: PolicyT) -> str:
        """What a policy is called in tables and folders."""

    @abstractmethod
    def check_policy(self, policy: PolicyT) -> None:
        """Raise for a name that is not registered, before anything is run."""

    @abstractmethod
    def run(self, config: ConfigT, policy: PolicyT, seed: int, full: bool) -> RunResult[ConfigT]:
        """Simulate once. ``full``: keep every table, or those alone that metrics are made of."""

    @abstractmethod
    def simulate(
        self, config: ConfigT, policy: PolicyT | None = None, seed: int | None = None
    ) -> RunResult[ConfigT]:
        """``run`` with every table, of the configuration's own policy and seed unless they are given."""

    def remarks(self, config: ConfigT) -> list[str]:
        """What a user should know of a configuration before it runs."""
        return []

    @abstractmethod
    def publish(self, comparison: Comparison, folder: Path) -> dict[str, str]:
        """Write the report, and what else belongs to recorded runs, into ``folder``: what was written, and where."""

    def decisive(self, config: ConfigT) -> Table:
        """What of a configuration decides the result of a run of a given policy and seed."""
        return {key: value for key, value in self.table(config).items() if key not in UNDECIDED}


AnyWing = Wing[Any, Any]


def wing_of(name: str) -> AnyWing:
    """The wing of that name; a worker process finds it again by it."""
    module, _, attribute = _WINGS[name].partition(":")
    found: AnyWing = getattr(importlib.import_module(module), attribute)()
    return found
