"""What a real server records, before its own dispatcher: every request is answered there, in the time that it took."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from eunomia.study.serving.replay import Replay
from eunomia.study.serving.twin import twin_of
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, ask, running

TENSOR = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": [0.0] * (3 * SIDE * SIDE)}
EACH = 40


def test_clients_in_a_closed_loop_are_told_as_they_were_served(tmp_path: Path) -> None:
    """Three threads that wait for their answers, two of gold and one of silver."""
    with running(tmp_path) as server:

        def user(key: str) -> Counter[int]:
            asked = (
                ask(server, "POST", "/v2/models/small/infer", key, {"inputs": [TENSOR]}) for _ in range(EACH)
            )
            return Counter(status for status, _ in asked)

        with ThreadPoolExecutor(3) as pool:
            assert sum(pool.map(user, (GOLD, GOLD, SILVER)), Counter()) == {200: 3 * EACH}
        recording = ask(server, "GET", "/v2/eunomia/twin", ADMIN)[1]
    twin = twin_of(json.loads(json.dumps(recording)))
    assert twin.server is not None and len(twin.requests) == 3 * EACH
    assert (twin.worked_on == 0).all() and (twin.factor > 0.0).all(), "one device, and every run was measured"
    replay = Replay(twin, twin.policy)
    told = replay.play()
    work_s = np.array([row[11] for row in sorted(recording["requests"], key=lambda row: row[0] + row[8])])
    response_s = told.response_s[replay.places(told)]
    assert np.isfinite(told.response_s).all() and replay.dispatcher.finished == len(told.number) >= 3 * EACH
    assert (told.response_s >= (twin.reach_s + twin.answer_s)[told.number]).all()
    busy_s = replay.dispatcher.lanes[0].busy_s
    np.testing.assert_allclose(
        busy_s, work_s[told.number].sum(), rtol=1e-3, err_msg="each took there what it took"
    )
    assert (
        np.median(response_s) < 5.0 * np.median(twin.response_s)
        and told.finish_s.max() < 5.0 * (twin.requests.arrival_s + twin.response_s).max()
    )
