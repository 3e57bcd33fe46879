"""Every example runs, shortened."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import eunomia
from eunomia.config import load_scenario
from eunomia.core.errors import ConfigError
from tests.rough import rough_capacity
from tests.shared_data import shared

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(path for path in EXAMPLES.glob("*.toml") if not path.name.startswith(("cluster_", "plan_")))
SHORT = ["duration_s=0.3", "warmup_s=0.0", "compare.seeds=1"]


def test_there_are_examples() -> None:
    assert {path.name for path in FILES} >= {
        "azure_two_tenants.toml",
        "mixed_npu.toml",
        "deferrable.toml",
        "closed_loop.toml",
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path) -> None:
    overrides = list(SHORT)
    if path.name.startswith("azure"):
        trace = shared("traces/azure_llm_2023_conv.csv")
        overrides += [f"tenant.chat.arrivals.path={trace}", "duration_s=2.0"]
    with rough_capacity():
        result = eunomia.compare(path, overrides=overrides)
    assert not result.failures
    assert all(values["requests"] > 0 for values in result.metrics.values())


def test_the_azure_example_finds_the_trace_beside_the_checkout() -> None:
    trace = shared("traces/azure_llm_2023_conv.csv")
    scenario = load_scenario(EXAMPLES / "azure_two_tenants.toml")
    found = Path(scenario.tenant[1].arrivals.path)  # type: ignore[union-attr]
    assert found == (EXAMPLES.parent.parent / "shared" / "data" / "traces" / trace.name).resolve()


def test_without_the_trace_the_example_says_how_to_get_it() -> None:
    missing = [*SHORT, "tenant.chat.arrivals.path=/nowhere/conv.csv"]
    with pytest.raises(
        ConfigError, match=r"no trace at .*AzurePublicDataset.*--set tenant\.NAME\.arrivals\.path"
    ):
        eunomia.run(EXAMPLES / "azure_two_tenants.toml", overrides=missing)


def test_the_policy_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    module = runpy.run_path(str(EXAMPLES / "custom_policy.py"))
    module["main"](["duration_s=0.1", "warmup_s=0.0"])
    assert "least_laxity" in capsys.readouterr().out
