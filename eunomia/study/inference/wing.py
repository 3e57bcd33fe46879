"""The wing that serves requests, as runs, comparisons and sweeps see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from eunomia.config import Scenario, with_values
from eunomia.core.records import Comparison
from eunomia.metrics.table import HEADLINES, METRICS
from eunomia.study.inference.compare import InferenceComparison
from eunomia.study.inference.notes import cost_notes, slowdown_notes, trace_notes
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.inference.run import SCENARIOS, InferenceRun, run, run_cell
from eunomia.study.run import Reader
from eunomia.study.wing import Table, Wing

TIMELINE_LAYERS = 30_000  # a few seconds of a busy platform: 10 MB, opens at once


class InferenceWing(Wing[Scenario, PolicyLike]):
    """Scenarios: tenants' requests on unequal accelerators."""

    name = "inference"
    metrics = METRICS
    headlines = HEADLINES
    chart = "hit_rate"
    grid_section = "sweep"
    result = InferenceComparison
    measures_all = True

    @property
    def reader(self) -> Reader[Scenario]:
        """How files of this wing are read."""
        return SCENARIOS

    def changed(self, config: Scenario, setting: Table) -> Scenario:
        """A copy with some values changed, by key path. Raises ConfigError."""
        return with_values(config, setting)

    def grid(self, config: Scenario) -> Mapping[str, Sequence[object]]:
        """The section [sweep]."""
        return config.sweep

    def policy_name(self, policy: PolicyLike) -> str:
        """What a policy is called in tables and folders."""
        return policy_name(policy)

    def check_policy(self, policy: PolicyLike) -> None:
        """Raises UnknownNameError, ConfigError."""
        resolve_policy(policy)

    def run(self, config: Scenario, policy: PolicyLike, seed: int, full: bool) -> InferenceRun:
        """Simulate once; without ``full``, the tables of requests alone are kept."""
        return run_cell(config, policy, seed, "all" if full else "requests")

    def simulate(
        self, config: Scenario, policy: PolicyLike | None = None, seed: int | None = None
    ) -> InferenceRun:
        """One run with every table."""
        return run(config, policy, seed)

    def remarks(self, config: Scenario) -> list[str]:
        """What of the scenario's traces a replay does not use, and what of costs and slowdowns is estimated."""
        return [*trace_notes(config), *cost_notes(config), *slowdown_notes(config)]

    def publish(self, comparison: Comparison, folder: Path) -> dict[str, str]:
        """``report.html``, and ``timeline.json`` of the first run."""
        from eunomia.report.html import write_report
        from eunomia.report.timeline import write_timeline

        write_report(folder / "report.html", comparison)
        write_timeline(folder / "timeline.json", comparison.runs[0], limit=TIMELINE_LAYERS)
        return {
            "report": str(folder / "report.html"),
            "timeline": str(folder / "timeline.json"),
            "data": str(folder),
        }
