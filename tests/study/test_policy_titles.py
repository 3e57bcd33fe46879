"""A class in a file has one name in tables, however the policy is given: class, object, or FILE.py:NAME."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import eunomia

MINE = """
from eunomia.cluster.shares import isolated_shares
from eunomia.contract.allocation import Allocation, Needs

class Plain:
    def __init__(self, k: int = 1): self.k = k
    def __call__(self, view): return [view.assign(0, int(view.idle[0]))]

class Stated(Plain):
    name = "my rule"

class Equal:
    needs = Needs(agnostic=True)
    def __init__(self, k: int = 1): self.k = k
    def reset(self, seed): pass
    def allocate(self, view):
        return Allocation(shares=view.usable * isolated_shares(view.capacity, view.scale))

class Named(Equal):
    name = "my equal"
"""
JOBS = Path(__file__).parents[2] / "examples" / "cluster_jobs.toml"
SCENARIO = eunomia.demo_scenario(["duration_s=0.03", "warmup_s=0.01"])


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = tmp_path / "below"
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("mine", folder / "mine.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "title"), [("Plain", "Plain"), ("Stated", "my rule")])
def test_a_policy_is_called_the_same_however_it_is_given(mine: ModuleType, name: str, title: str) -> None:
    made = getattr(mine, name)
    for policy in (made, made(), f"below/mine.py:{name}"):
        assert eunomia.run(SCENARIO, policy).policy == title
    assert eunomia.run(SCENARIO, f"below/mine.py:{name}(k=2)").policy == f"{title}(k=2)"


@pytest.mark.parametrize(("name", "title"), [("Equal", "Equal"), ("Named", "my equal")])
def test_an_allocator_is_called_the_same_however_it_is_given(mine: ModuleType, name: str, title: str) -> None:
    made = getattr(mine, name)
    for policy in (made, made(), f"below/mine.py:{name}"):
        assert eunomia.run_cluster(JOBS, policy).policy == title
    assert eunomia.run_cluster(JOBS, f"below/mine.py:{name}(k=2)").policy == f"{title}(k=2)"


def test_what_is_no_allocator_is_refused() -> None:
    with pytest.raises(eunomia.EunomiaError, match="cluster policy 'int' is 3, which cannot be called"):
        eunomia.run_cluster(JOBS, 3)  # type: ignore[arg-type]
