"""Several policies on the same requests or jobs: one configuration, common random numbers, paired seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Unpack

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, EunomiaError, UnknownNameError, within
from eunomia.core.records import Comparison, read_comparison, write_comparison
from eunomia.engines.processes import Outcome
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import FEWEST, Estimate, interval, paired_difference
from eunomia.report.charts import bars
from eunomia.report.table import Table, estimates_table
from eunomia.report.units import counted
from eunomia.study.batch import Batch, BatchOptions
from eunomia.study.cells import folder_name, make_cell, run_cells
from eunomia.study.place import claim_as, key_of, let_go
from eunomia.study.result import ConfigT, Configuration, Result, Row
from eunomia.study.run import provenance, seeds_from
from eunomia.study.wing import AnyWing, wing_of

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

Key = tuple[str, int]  # policy, seed
Metrics = dict[str, float]


@dataclass(frozen=True, repr=False, kw_only=True)
class CompareResult(Result, Generic[ConfigT]):
    """Metrics of every policy on every seed; ``failures`` names the runs that gave none."""

    wing: str
    config: ConfigT
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    answers: Mapping[Key, Data]  # what was kept of each run
    failures: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None  # where the runs are; None = nothing was written

    @cached_property
    def metrics(self) -> dict[Key, Metrics]:
        """(policy, seed) -> metric -> value; nan where the run has no such number."""
        return {
            key: {name: math.nan if value is None else value for name, value in answer["metrics"].items()}
            for key, answer in self.answers.items()
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know of single runs, each remark once, with its policy."""
        said = (f"{key[0]}: {text}" for key, answer in self.answers.items() for text in answer["remarks"])
        return tuple(dict.fromkeys(said))

    @property
    def finished(self) -> list[str]:
        """The policies with at least one run that did not fail."""
        return [name for name in self.policies if any((name, seed) in self.answers for seed in self.seeds)]

    @property
    def alike(self) -> Sequence[str]:
        """The policies of which all seeds gave the same, so that no interval can be had from them."""
        return ()

    def values(self, policy: str, metric: str) -> list[float]:
        """One number per seed, nan where a run failed or has no such number. Raises UnknownNameError."""
        metric_of(wing_of(self.wing), metric)
        if policy not in self.policies:
            raise UnknownNameError("policy of this comparison", policy, self.policies)
        found = (self.answers.get((policy, seed), {}).get("metrics", {}).get(metric) for seed in self.seeds)
        return [math.nan if value is None else float(value) for value in found]

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean over seeds with its 95 % interval."""
        return interval(self.values(policy, metric))

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Mean of policy - rival over the same seeds, with the paired 95 % interval."""
        return paired_difference(self.values(policy, metric), self.values(rival, metric))

    @property
    def baseline(self) -> str:
        """The policy that gains refer to."""
        return self.finished[0]

    def gain(self, policy: str) -> Estimate | None:
        """What the column ``gain`` shows; None where there is nothing to show."""
        return None

    def records(self) -> Comparison:
        """The recorded runs, for reports. Raises ConfigError when none were written."""
        if self.directory is None:
            raise ConfigError("this comparison was not written; give compare(..., directory=...)")
        return read_comparison(self.directory, verify=False)

    def rows(self) -> list[Row]:
        """A tidy table: one row per policy and seed, with its metrics."""
        return [{"policy": policy, "seed": seed, **found} for (policy, seed), found in self.metrics.items()]

    @property
    def title(self) -> str:
        """Name of the configuration, and how much was compared."""
        policies, seeds = counted(len(self.policies), "policy", "policies"), counted(len(self.seeds), "seed")
        return f"{self.config.name}: {policies}, {seeds}"

    def table(self, short: bool = False) -> Table:
        """One row per policy: the headline metrics, each with half its 95 % interval unless ``short``."""
        wing = wing_of(self.wing)
        table = estimates_table(self, {n: wing.metrics[n] for n in wing.headlines}, short, self.gain)
        empty = ("failed", *[""] * (len(table.header) - 2))
        rows = (row if row[0] in self.finished else (row[0], *empty) for row in table.rows)
        return Table(table.header, tuple(rows))

    def footnotes(self) -> list[str]:
        """How many seeds stand behind the numbers, and remarks on single runs."""
        return [*self.samples(), *(f"note: {text}" for text in self.remarks)]

    def samples(self) -> list[str]:
        """How many samples stand behind the numbers."""
        return [seeds_note(self.seeds)]

    def facts(self) -> Data:
        """Estimates by policy, as plain data."""
        return {"policies": {policy: {"metrics": self.estimates(policy)} for policy in self.policies}}

    def estimates(self, policy: str) -> Data:
        """Mean and interval of every metric, as plain data."""
        metrics = wing_of(self.wing).metrics
        return {name: as_data(self.estimate(policy, name)) for name in metrics}

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A bar per policy for a metric, by default the wing's own, with its 95 % interval."""
        wing = wing_of(self.wing)
        name = metric or wing.chart
        bars(axes, {p: self.estimate(p, name) for p in self.policies}, metric_of(wing, name).label)


AnyComparison = CompareResult[Any]


def seeds_note(seeds: Sequence[int]) -> str:
    """How the numbers of a comparison are to be read."""
    if len(seeds) < 2:
        return "one seed: there are no intervals, and small differences mean nothing"
    if len(seeds) < FEWEST:
        return (
            f"mean of {len(seeds)} seeds, the same for every policy: too few for an interval; "
            "--seeds 5 (seeds=5) gives one"
        )
    return f"mean of {len(seeds)} seeds, the same for every policy; ±: half the 95 % confidence interval"


def as_data(estimate: Estimate) -> dict[str, float | int]:
    """An estimate for JSON."""
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "seeds": estimate.n}


def metric_of(wing: AnyWing, name: str) -> Metric:
    """A metric of a wing. Raises UnknownNameError."""
    if name not in wing.metrics:
        raise UnknownNameError("metric", name, wing.metrics)
    return wing.metrics[name]


def compare_in(
    wing: AnyWing,
    config: object,
    policies: Sequence[object] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    **options: Unpack[BatchOptions],
) -> AnyComparison:
    """Run every policy on every seed; with ``directory``, write the runs there and go on where a stopped call left off.

    ``policies`` and ``seeds`` default to the configuration's [compare]. A run that fails is named in ``failures``;
    if all fail, the first complaint is raised.
    """
    checked, batch = wing.checked(config, overrides), Batch.of(options)
    chosen, numbers = choice(wing, checked, policies, seeds)
    if batch.root is not None:
        claim_as(batch.root, "comparison", key_of(wing.table(checked)), batch.overwrite)
    cells = [
        make_cell(wing, checked, policy, seed, batch.full(seed, numbers[0]), batch.root)
        for policy in chosen
        for seed in numbers
    ]
    names = [wing.policy_name(policy) for policy in chosen]
    result = gather(wing, checked, names, numbers, run_cells(cells, batch), batch.root)
    if not result.answers:
        let_go(batch.root)
        raise EunomiaError(next(iter(result.failures.values())))
    if batch.root is not None:
        write_manifest(result)
    return result


def choice(
    wing: AnyWing, config: Configuration, policies: Sequence[object] | None, seeds: int | None
) -> tuple[list[object], list[int]]:
    """Policies and seeds of a comparison. Raises ConfigError for unknown names, and where two share one."""
    if isinstance(policies, str):
        raise ConfigError(f"policies is the text '{policies}'; give a list: ['{policies}']")
    chosen: list[object] = [*(policies or config.compare.policies)]
    names = [wing.policy_name(policy) for policy in chosen]
    folders = [folder_name(name) for name in names]
    for index, name in enumerate(folders):
        if name in folders[:index]:
            raise ConfigError(f"two policies are called '{names[index]}'; give them different names")
    for policy in chosen:  # a wrong name is found before the first run
        with nullcontext() if policies else within(f"'{config.name}': compare.policies"):
            wing.check_policy(policy)
    return chosen, seeds_from(config.seed, config.compare.seeds if seeds is None else seeds)


def gather(
    wing: AnyWing,
    config: Configuration,
    policies: list[str],
    seeds: list[int],
    outcomes: list[Outcome],
    directory: Path | None,
) -> AnyComparison:
    """Outcomes, in order of policy, then seed, as one value."""
    keys = [(policy, seed) for policy in policies for seed in seeds]
    result: AnyComparison = wing.result(
        wing=wing.name,
        config=config,
        policies=tuple(policies),
        seeds=tuple(seeds),
        answers={key: o.result for key, o in zip(keys, outcomes, strict=True) if o.result is not None},
        failures=failed(outcomes),
        directory=directory,
    )
    return result


def failed(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Names of failed cells with the reason."""
    return {outcome.cell.name: outcome.failure for outcome in outcomes if outcome.failure is not None}


def write_manifest(result: AnyComparison, **more: object) -> None:
    """What a comparison leaves beside its runs; ``more`` stands in it as it is given."""
    assert result.directory is not None, "a result without a folder has no manifest"
    manifest = {
        "name": result.config.name,
        "kind": "comparison",
        "wing": result.wing,
        "policies": list(result.policies),
        "baseline": result.baseline,
        "seeds": list(result.seeds),
        "failures": result.failures,
        **more,
        "config": wing_of(result.wing).table(result.config),
        **provenance(),
    }
    write_comparison(result.directory, manifest)
