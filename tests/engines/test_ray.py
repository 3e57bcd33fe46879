"""Cells and trainings on a Ray cluster: the bytes of the process pool, through killed workers and nodes."""

from __future__ import annotations

import os
import signal
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eunomia
from eunomia.core import ray_client
from eunomia.core.errors import ConfigError
from eunomia.engines import crew, ray_cluster
from eunomia.engines.processes import Cell, Interrupted, map_cells
from eunomia.engines.ray_cluster import TRIES, connect, on_ray
from tests import children
from tests.cli.scenarios import SMALL
from tests.engines import work
from tests.engines.test_processes import cells
from tests.learning.test_training import START, trained
from tests.patience import until

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One of this machine."""
    folders = [children.ROOT, children.WITHOUT, os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
        assert ray_client.connect(cpus=2), "it is a new one"
        yield
        ray.shutdown()


def test_results_are_those_of_processes_in_the_same_order(cluster: None, tmp_path: Path) -> None:
    here = map_cells(cells(5), work.fails_at_two, 2, store=tmp_path / "here")
    there = map_cells(cells(5), work.fails_at_two, 2, store=tmp_path / "there", on="ray")
    assert there == here and there[2].failure == "two is refused"
    assert {p.name: p.read_bytes() for p in (tmp_path / "here").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "there").iterdir()
    }
    again = map_cells(cells(5), work.square, 2, store=tmp_path / "there", on="ray")
    assert [o.reused for o in again] == [True, True, False, True, True]


def test_a_cell_that_kills_its_worker_costs_itself_alone(cluster: None) -> None:
    outcomes = map_cells(cells(3), work.dies_at_one, 2, on="ray")
    assert [o.result for o in outcomes] == [{"value": 0}, None, {"value": 2}]
    assert outcomes[1].failure is not None and f"died {TRIES} times" in outcomes[1].failure


def test_a_worker_of_another_version_is_refused(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "stamp_here", lambda: ("0.0.1", "of-old"))
    with pytest.raises(ConfigError, match=r"has eunomia .* install eunomia 0\.0\.1 \(source of-old\)"):
        map_cells(cells(2), work.square, 2, on="ray")


def test_a_task_that_raises_is_told_in_its_own_words(cluster: None) -> None:
    """The error of the task, not the death of a worker."""
    answers = dict(on_ray(work.divides, [(0, (1,)), (1, (0,))], 2))
    assert answers[0] == 1 and answers[1] == "ZeroDivisionError: integer division or modulo by zero"


def test_what_a_killed_worker_was_doing_is_done_again(cluster: None, tmp_path: Path) -> None:
    told = [Cell(f"key{n}", f"cell {n}", (str(tmp_path), n)) for n in range(4)]
    assert [o.result for o in map_cells(told, work.dies_once_at_one, 2, on="ray")] == [
        {"value": n} for n in range(4)
    ]


def test_a_sweep_on_ray_writes_the_same_bytes(cluster: None, tmp_path: Path) -> None:
    for name, on in (("here", "processes"), ("there", "ray")):
        given: Any = {"directory": tmp_path / name, "workers": 2 if on == "ray" else 1, "on": on}
        eunomia.sweep(tomllib.loads(SMALL), {"load": [0.5, 0.9]}, ["edf+f"], seeds=1, **given)
    for name in ("sweep.parquet", "sweep.csv"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()


def test_a_training_on_ray_does_not_differ_in_a_bit(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(crew, "connect", lambda: asked.append(ray_client.connect()))
    last_first = replace(START, base=-START.base)  # so that any machine's search finds something better
    spread, here = (trained(start=last_first, workers=workers) for workers in (crew.OnRay(2), 1))
    assert asked == [False], "it would connect by itself, and is connected"
    np.testing.assert_array_equal(spread.tensors["x"], here.tensors["x"])
    np.testing.assert_array_equal(spread.values, here.values)
    assert here.tensors["x"].any()


def test_ctrl_c_ends_the_tasks_keeps_what_is_finished_and_the_rest_is_computed_later(
    cluster: None, tmp_path: Path
) -> None:
    def interrupt(outcome: object) -> None:
        if len(list(tmp_path.glob("key*.json"))) == 4:  # both workers are at cells that never end
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    try:
        with pytest.raises(Interrupted) as told:
            map_cells(cells(8), work.square_or_never, 2, interrupt, store=tmp_path, on="ray")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (told.value.done, told.value.total) == (4, 8)
    again = map_cells(cells(8), work.square, 2, store=tmp_path, on="ray")  # needs the two processors
    assert [o.reused for o in again] == [True] * 4 + [False] * 4
    assert [o.result for o in again] == [{"square": o.cell.payload**2} for o in again]


def test_a_cluster_without_processors_is_not_waited_for(
    cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"memory": 1e9, "npu": 4.0})
    monkeypatch.setattr(ray_cluster, "LOOK_S", 0.05)
    with pytest.raises(ConfigError, match="no node of the Ray cluster has a CPU: add one"):
        map_cells(cells(8)[4:], work.square_or_never, 1, on="ray")


def test_a_cluster_that_goes_is_one_sentence_and_none_is_started_in_its_place(
    cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a lost connection, Ray's client begins a cluster of this machine at the next call."""

    asked: list[object] = []
    with monkeypatch.context() as patch:

        def lost(*_: object, **__: object) -> None:
            patch.setattr(ray, "is_initialized", lambda: False)
            raise ConnectionError("Client is shutting down.")

        patch.setattr(ray, "wait", lost)
        patch.setattr(ray, "cancel", lambda task, force: asked.append(task))
        said = r"the Ray cluster is gone \(Client is shutting down\); what was written"
        with pytest.raises(ConfigError, match=said):
            list(on_ray(work.divides, [(0, (1,))], 1))
    assert not asked


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "ray"])
def test_what_ray_says_is_one_sentence(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own of another version has five lines, and the first says nothing."""

    def refuses(*_: object, **__: object) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.9.1\n"
        )

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuses)
    monkeypatch.setattr(ray_client, "must_answer", lambda address: None)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    said = (
        "no Ray cluster answers at '10.0.0.1:6379': Version mismatch: .* Ray: 2.9.0 Python: 3.9.1; give ray"
    )
    with pytest.raises(ConfigError, match=said):
        connect(address)


@pytest.mark.study  # three nodes take a minute to start and to end
def test_what_a_lost_node_was_doing_is_done_elsewhere(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    first = found.add_node(num_cpus=2)

    def lose_the_node() -> None:
        until((tmp_path / "started").exists)
        found.add_node(num_cpus=2)
        found.remove_node(first, allow_graceful=False)
        (tmp_path / "go").touch()

    loser = threading.Thread(target=lose_the_node)
    loser.start()
    told = [Cell(f"key{n}", f"cell {n}", (str(tmp_path), n)) for n in range(3)]
    try:
        outcomes = map_cells(told, work.waits_at_one, 2, on=found.address)
    finally:
        loser.join()
        found.shutdown()
    assert [o.result for o in outcomes] == [{"value": n} for n in range(3)]
