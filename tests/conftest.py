"""Settings of all tests: hypothesis never fails on a slow machine, and repeats its examples."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import spawn
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.children import WITHOUT

os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")  # of errors that numba itself catches
os.environ.setdefault("OMP_NUM_THREADS", "1")  # of PyTorch: in small networks more only wait for each other
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as `make suite`: each child would compile every module anew
BOUNDS_EXAMPLES = 5  # of each property where all indices are checked (tests/inference/test_bounds.py)
HERE = Path(__file__).parent
DEEPER = 20  # so many times the examples, in the profile "deep"
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")

settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", settings.get_profile("suite"), derandomize=False, max_examples=50 * DEEPER)
settings.register_profile(
    "page", settings.get_profile("suite"), max_examples=250
)  # benchmarks/serving/conformance.py
settings.register_profile("bounds", settings.get_profile("suite"), max_examples=BOUNDS_EXAMPLES)
settings.load_profile(PROFILE)
# Hypothesis draws constants of all sources that are loaded, too: examples would depend on the tests that ran before.
if settings().derandomize:
    providers._get_local_constants = providers.Constants


@pytest.fixture(scope="session", autouse=True)
def one_process() -> Iterator[None]:
    """Verbs without ``--workers`` compute in the process of the test: the start of another costs seconds.

    By default there is one per core: so in ``tests/cli/test_commands.py``, and in commands that tests start.
    """
    from eunomia.cli import options

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "cores", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def workers_without_pandas() -> Iterator[None]:
    """Processes of a pool find modules where their parent does: beside them ``tests/without``, as in other children."""
    told = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        found = told(name)
        return {**found, "sys_path": [str(WITHOUT), *found["sys_path"]]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spawn, "get_preparation_data", prepared)
        yield


# Begun first where files are dealt out to workers, so that none of them runs alone at the end. Two or three workers
# compile nothing twice: code of their own has the first file, the fourth and, for the cluster's solvers, the second.
LONGEST = (
    "tests/inference/test_bounds.py",
    "tests/cluster/policies/test_choice.py",
    "tests/inference/policies/test_contract.py",  # and the others of TOGETHER
    "tests/inference/lookahead/test_learned.py",
    "tests/inference/lookahead/test_bound.py",
    "tests/study/test_every_scenario.py",
    "tests/test_recipes.py",
    "tests/serving/test_hostile.py",
    "tests/serving/test_takeover.py",
    "tests/serving/test_promotion.py",
    "tests/test_tutorials.py",  # most policies of test_contract are kept by then
    "tests/learning/agents/bdq/test_branching.py",
    "tests/learning/agents/ddpg/test_decide.py",
    "tests/workload/test_torch_export.py",
    "tests/cluster/policies/test_peers.py",
    "tests/cluster/test_slurm_jobs.py",
    "tests/cli/test_signals.py",
    "tests/learning/test_lifecycle.py",
    "tests/study/test_runs.py",
    "tests/serving/test_ray_devices.py",
    "tests/engines/test_ray.py",
    "tests/inference/test_linear.py",
    "tests/cluster/test_nodes.py",
    "tests/learning/test_expert.py",
    "tests/learning/test_loop.py",
    "tests/test_site.py",
    "tests/test_docs.py",
    "tests/inference/test_clairvoyant.py",
    "tests/study/test_plan.py",
    "tests/sharing/test_corun.py",
    "tests/learning/evolve/test_short.py",
    "tests/learning/agents/ddpg/test_training.py",
    "tests/learning/agents/a3c/test_a3c.py",
    "tests/benchmarks/test_pages.py",
    "tests/study/test_study.py",
    "tests/study/test_evolving.py",
    "tests/cli/test_commands.py",
    "tests/test_examples.py",
)


# Of the same policies: in one process, what they compile is compiled once.
TOGETHER = (
    "tests/inference/policies/test_contract.py",
    "tests/inference/lookahead/test_learned.py",
    "tests/inference/lookahead/test_bound.py",
    "tests/study/test_every_scenario.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Files are dealt out in the order of collection, which is that of ``longest_first``."""
    gc.disable()  # until all tests are found: a third of the time would go into looking for what none of them drops
    if hasattr(
        config.option, "loadscopereorder"
    ):  # of pytest-xdist: by number of tests, however long they take
        config.option.loadscopereorder = False
    worker = getattr(config, "workerinput", None)
    if worker is not None and config.args == config.getini("testpaths"):
        config.args = from_ones_own_place(int(worker["workerid"][2:]), worker["workercount"])


def from_ones_own_place(worker: int, workers: int) -> list[str]:
    """All tests, but each worker begins elsewhere: what it compiles of a fresh checkout, the others find compiled."""
    files = sorted(map(str, HERE.rglob("test_*.py")))
    first = len(files) * worker // workers
    return files[first:] + files[:first]


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """With ``-n auto`` one more than cores: a third of the time, tests of servers wait for processes."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` the files of TOGETHER are dealt out as one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByKin(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            name = nodeid.partition("::")[0]
            return TOGETHER[0] if name in TOGETHER else name

    return ByKin(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first for workers. With the profile "bounds" fewer examples, with "deep" more."""
    strange = [item.nodeid for item in items if " at 0x" in item.nodeid]
    assert not strange, f"every process must find the same names, and these hold an address: {strange[:3]}"
    if hasattr(config, "workerinput"):
        longest_first(items)
    if PROFILE in EXAMPLES:
        change_examples(items, EXAMPLES[PROFILE])


def pytest_runtest_setup() -> None:
    """PyTorch has one thread again: a device of it takes every core, and its process is that of the tests."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests and modules are here to stay: the garbage collector looks at them no more."""
    gc.freeze()
    gc.enable()


def longest_first(items: list[pytest.Item]) -> None:
    """The files of LONGEST, then those with most tests; within a file nothing moves."""
    count = Counter(_file(item) for item in items)
    rank = {name: n for n, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (rank.get(_file(item), len(rank)), -count[_file(item)], _file(item)))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


EXAMPLES: dict[str, Callable[[settings], settings]] = {
    "bounds": lambda own: settings(own, max_examples=min(own.max_examples, BOUNDS_EXAMPLES)),
    "deep": lambda own: settings(own, max_examples=deeper(own.max_examples), derandomize=False),
}


def deeper(examples: int) -> int:
    """So many in place of those of a test; the profile's own are many already."""
    return examples if examples == settings().max_examples else examples * DEEPER


def change_examples(items: list[pytest.Item], change: Callable[[settings], settings]) -> None:
    """Of tests that ask for a number of their own, too."""
    for function in {getattr(item, "obj", None) for item in items}:
        asked = getattr(function, "_hypothesis_internal_use_settings", None)
        if asked is not None:
            function._hypothesis_internal_use_settings = change(asked)
