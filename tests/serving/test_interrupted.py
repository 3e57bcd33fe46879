"""A device that stood still in the midst of a run, as another program had its core: no input is to blame for that."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.messages import pair, receive
from eunomia.serving.devices.worker import Worker
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.learning import TRIAL
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory, hash_key
from tests.serving.live import SIDE, SILVER, ask, running

STILL_S = 0.5


@pytest.mark.parametrize("kind", ["done", "failed"])
def test_a_worker_says_what_a_run_had_of_its_core(tmp_path: Path, kind: str) -> None:
    line, theirs = pair()
    worker = Worker(theirs, Arena.create(2**16), 0, str(tmp_path))

    def block(n: int, live: dict[str, Any]) -> dict[str, Any]:
        if kind == "failed":
            raise ValueError
        return live

    clock = itertools.count().__next__
    network: Any = SimpleNamespace(bound=None, blocks=2, has_whole=False, clock=clock, run_block=block)
    worker._networks["m"] = network
    order = {"kind": "run", "request": 1, "model": "m", "ticket": 7, "first": 0, "last": 1, "whole": False}
    worker._run({**order, "inputs": [[]]})
    said = receive(line)
    assert said is not None and (said["kind"], said["own_s"]) == (kind, 1)
    line.close()
    theirs.close()


def test_a_class_is_settled_once_much_of_it_has_run() -> None:
    costs = CostBook(2)
    network = costs.add("net", 2, sizes=[1])
    costs.measured(network, 0, [0.1, 0.1])
    assert costs.settled(network, 0, network.first_row) and not costs.settled(network, 1, network.first_row)
    row = costs.row_of(network, 1, [4])
    for _ in range(int(TRIAL)):
        assert not costs.settled(network, 0, row)
        costs.learn(network, 0, 0, [0.1, 0.1], 1, row)
    assert costs.settled(network, 0, row)


@pytest.mark.parametrize("rows", [1, 2])
def test_who_was_interrupted_is_neither_refused_nor_cut(tmp_path: Path, rows: int) -> None:
    """One row has run at its trial, two never: it was 413 for half a minute, after a cut in vain."""
    grants = [Grant("gold", promises={"*": Promise(0.05)}), Grant("silver")]
    with running(tmp_path, directory=StaticDirectory(grants, {hash_key(SILVER): "silver"})) as server:
        execution, network = server.pool.execution, server.pool.models["small"].network
        ended, stood = execution._on_end, list[float]()

        def late(device: int, message: dict[str, Any]) -> None:
            if not stood and message["kind"] == "done":
                stood.append(message["own_s"])
                message["span_s"][0] -= STILL_S
                message["ends_s"][0] -= STILL_S
            ended(device, message)

        execution._on_end = late  # type: ignore[method-assign]
        tensor = {"name": "image", "datatype": "FP32", "shape": [rows, 3, SIDE, SIDE]}
        tensor["data"] = np.zeros(rows * 3 * SIDE * SIDE).tolist()
        for _ in range(3):
            assert ask(server, "POST", "/v2/models/small/infer", SILVER, {"inputs": [tensor]})[0] == 200
        assert stood and server.pool.models["small"].network is network
