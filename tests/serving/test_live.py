"""The live page: its state, what a tenant may see, and the page itself in a real browser."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from eunomia.serving.fronts.live import page_text, state_of
from eunomia.serving.observe.history import History, Run, why
from eunomia.serving.observe.retired import Retired
from eunomia.serving.observe.strain import Strain
from eunomia.serving.server import Server
from tests import axe
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, running

tritonhttp = pytest.importorskip("tritonclient.http")


def send(server: Server, key: str, count: int, **more: Any) -> None:
    stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    tensor = tritonhttp.InferInput("image", [1, 3, SIDE, SIDE], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 3, SIDE, SIDE), np.float32))
    for _ in range(count):
        stub.infer("small", [tensor], headers={"authorization": f"Bearer {key}"}, **more)


def state(server: Server, key: str = "") -> dict[str, Any]:
    url = f"http://127.0.0.1:{server.http_port}/v2/eunomia/state"
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        content: dict[str, Any] = json.loads(answer.read())
        return content


def test_an_administrator_sees_all_and_a_tenant_itself(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        send(server, GOLD, 3)
        send(server, SILVER, 2)
        everything, own = state(server, ADMIN), state(server, SILVER)
        assert [(p["tenant"], p["sli"], p["count"]) for p in everything["pairs"]] == [
            ("gold", 1.0, 3),
            ("silver", 1.0, 2),
        ]
        assert [p["tenant"] for p in own["pairs"]] == ["silver"]
        assert {run[1] for run in own["runs"]} == {"silver"}
        assert set(own["front_end"]) == {"busy", "late_ms", "full", "remark"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            state(server, "eun_nobody")


def test_a_tenant_sees_of_others_one_coarse_number() -> None:
    """As it was, each of their runs from start to end: when they sent, and how much."""
    history = History(strain())
    for n in range(30):
        history.ran(Run(0, "gold", "m", 10.1 + 0.3 * n, 10.2 + 0.3 * n, False))
    history.ran(Run(0, "silver", "m", 19.0, 19.2, False))
    service: Any = MagicMock(
        spec_set=["pool", "clock", "books", "policy_name", "draining", "fallbacks"],
        pool=MagicMock(
            devices=[SimpleNamespace(spec=SimpleNamespace(name="cpu"), restarts=0, pid=7, stands_by=0)]
        ),
    )
    dispatcher, service.books.history = service.pool.dispatcher, history
    dispatcher.agreements = [
        SimpleNamespace(tenant=name, model="m", weight=1.0, slo=None) for name in ("gold", "silver")
    ]
    dispatcher.indicators = [SimpleNamespace(sli=math.nan, count=0, refresh=lambda now_s: None)] * 2
    dispatcher.waiting.jobs.return_value = [SimpleNamespace(pair=0)]
    dispatcher.lanes = [SimpleNamespace(alive=True, busy_s=3.21, job=SimpleNamespace(pair=0))]
    service.policy_name, service.draining = "edf+f", False
    service.books.front.facts.side_effect = lambda coarse: {"coarse": coarse}
    service.pool.arena.room_bytes = service.pool.arena.free_bytes = service.fallbacks.return_value = 1
    seen = list[Any]()
    for service.clock.now_s.return_value in (19.5, 20.1, 22.7, 29.9, 30.1):
        found = state_of(service, "silver")
        seen.append((found["others_share"], [run[1] for run in found["runs"]]))
        assert found["waiting"] == 0 and found["front_end"] == {"coarse": True}
        assert found["devices"][0]["running"] is found["devices"][0]["busy_s"] is None  # type: ignore[index]
        assert found["preemptions"] is found["arena_free_share"] is None
        assert "gold" not in json.dumps(found)
    assert seen == [(0.0, ["silver"])] + [(0.3, ["silver"])] * 2 + [(0.3, [])] + [(0.0, [])]
    service.clock.now_s.return_value, service.fallbacks.return_value = 19.5, {}
    everything = state_of(service, None)
    assert len(everything["runs"]) == 31 and everything["waiting"] == 1  # type: ignore[arg-type]
    assert everything["others_share"] is None and everything["devices"][0]["running"] == "gold"  # type: ignore[index]


class Name(str):
    """Counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_each_request_that_waits_is_looked_at_once() -> None:
    """As it was, once for each pair: 1,000 requests of 1,000 tenants took 8 ms of the event loop."""
    names = [Name(f"t{n}") for n in range(100)]
    free = SimpleNamespace(sli=math.nan, count=0, refresh=lambda now_s: None)
    pairs = [SimpleNamespace(tenant=name, model="small", weight=1.0, slo=None) for name in names]
    jobs = [SimpleNamespace(pair=n) for n in range(100)]
    service: Any = MagicMock(spec_set=["pool", "clock", "books", "policy_name", "draining", "fallbacks"])
    dispatcher = service.pool.dispatcher
    dispatcher.agreements, dispatcher.indicators, dispatcher.lanes = pairs, [free] * 100, []
    dispatcher.waiting.jobs.return_value, service.pool.devices, service.books.history.runs = jobs, [], []
    service.pool.arena.room_bytes = 1
    shown = state_of(service, None)
    assert shown["waiting"] == 100 and [pair["waiting"] for pair in shown["pairs"]] == [1] * 100
    assert Name.compared < 1000


def test_who_gives_no_name_sees_an_anonymous_server_too_which_has_no_tenant_of_the_name_default(
    tmp_path: Path,
) -> None:
    """The page of the README's server was empty: it asks without a name."""
    with running(tmp_path, anonymous=True) as server:
        send(server, GOLD, 2)
        assert [(p["tenant"], p["count"]) for p in state(server)["pairs"]] == [("gold", 2)]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            state(server, "eun_nobody")


def test_reasons_of_misses() -> None:
    def miss(outcome: str, response_s: float, queue_s: float, service_s: float) -> Retired:
        return Retired("t", "m", outcome, response_s, queue_s, service_s, 1, 2, 0.1)

    assert why(miss("late", 1.0, 0.8, 0.1)) == "it waited for its first block"
    assert why(miss("late", 1.0, 0.1, 0.8)) == "its own blocks took most of the time"
    assert why(miss("late", 1.0, 0.1, 0.2)) == "it waited between blocks (2 times stopped for others)"
    assert "deadline could no longer be met" in why(miss("hopeless", 0.1, 0.1, 0.0))
    slow = replace(miss("late", 1.0, 0.3, 0.3), reach_s=0.2, answer_s=0.3)
    assert why(slow).startswith("the server's own thread took most of the time")
    assert why(slow, "the machine was busy: blocks").endswith("after its last; the machine was busy: blocks")


def strain(late_s: float = 0.0) -> Strain:
    front: Any = SimpleNamespace(late_s=late_s)
    return Strain(front)


def ran(work_s: float, outcome: str = "late", expected_s: float = 0.04) -> Retired:
    """Its blocks take 40 ms in the mean."""
    return Retired("t", "m", outcome, 0.5, 0.3, work_s, 1, 0, 0.1, work_s=work_s, expected_s=expected_s)


@pytest.mark.parametrize(("late_s", "service_s", "outcome", "says"), [
    (0.0, 0.04, "late", ""), (0.0, 0.055, "late", ""), (0.009, 0.04, "late", ""),
    (0.0, 0.1, "late", "the machine was busy: blocks took 2.5 times their means"),
    (0.12, 0.04, "late", "the machine was busy: the front end was 120 ms late"),
    (0.12, 0.06, "late", "the machine was busy: blocks took 1.5 times their means, the front end was 120 ms late"),
    (0.12, 0.0, "expired", "the machine was busy: the front end was 120 ms late"), (0.12, 0.0, "cancelled", ""),
])  # fmt: skip
def test_a_busy_machine_is_named_as_a_cause(late_s: float, service_s: float, outcome: str, says: str) -> None:
    """As it was, a machine that ran something else showed as "it waited for its first block"."""
    assert strain(late_s).of(ran(service_s, outcome), 1.0) == says


def test_who_waited_for_slow_blocks_of_others_learns_it_for_some_seconds() -> None:
    found, waited = strain(), ran(0.0, "hopeless", 0.0)
    for n in range(100):
        found.note(ran(0.08, "hit"), 0.01 * n)
        found.note(ran(0.16, "hit", 0.08), 0.01 * n)
    found.note(ran(9.0, "hit", 0.0), 1.0)  # on a device whose means nobody knows
    assert found.of(waited, 2.0) == "the machine was busy: blocks took 2.0 times their means"
    assert found.of(waited, 5.0) == ""
    history = History(found)
    history.retired(waited, 2.0)
    assert history.misses[0]["why"].endswith(
        "be met; the machine was busy: blocks took 2.0 times their means"
    )


def test_the_page_says_from_when_to_when_its_times_run() -> None:
    assert "times run from a request that is read to its answer that is ready" in page_text()


def test_the_history_is_bounded() -> None:
    history = History(strain())
    for n in range(5000):
        history.retired(Retired("t", "m", "late", 0.2, 0.1, 0.1, 1, 0, 0.1), n * 0.5)
    assert len(history.misses) == 50 and len(history.seconds) == 120


def test_the_page_in_a_real_browser(tmp_path: Path) -> None:
    pytest.importorskip("selenium")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    with running(tmp_path) as server:
        send(server, GOLD, 3)
        with axe.chromium(tmp_path) as browser:
            browser.get(f"http://127.0.0.1:{server.http_port}/")
            wait = WebDriverWait(browser, PATIENCE_S)
            wait.until(lambda b: b.find_element(By.ID, "key").is_displayed())
            browser.find_element(By.ID, "key").send_keys(ADMIN)
            browser.find_element(By.CSS_SELECTOR, "#login button").click()
            wait.until(lambda b: "gold, small" in b.find_element(By.ID, "pairs").text)
            text = browser.find_element(By.ID, "pairs").text
            assert "100 %" in text and "met" in text
            assert browser.find_element(By.ID, "policy").text == "edf+f"
            assert (
                len(browser.find_elements(By.CSS_SELECTOR, "#devices rect")) >= 2
            )  # the lane, and runs on it
            for tenant in ("silver",):  # the page goes on by itself
                send(server, SILVER, 1)
                wait.until(lambda b, name=tenant: f"{name}, small" in b.find_element(By.ID, "pairs").text)
            assert not [
                e for e in browser.get_log("browser") if e["level"] == "SEVERE" and "401" not in e["message"]
            ]


def test_the_page_of_a_tenant(tmp_path: Path) -> None:
    pytest.importorskip("selenium")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    with running(tmp_path) as server, axe.chromium(tmp_path) as browser:
        send(server, GOLD, 3)
        send(server, SILVER, 2)
        browser.get(f"http://127.0.0.1:{server.http_port}/")
        wait = WebDriverWait(browser, PATIENCE_S)
        wait.until(lambda b: b.find_element(By.ID, "key").is_displayed())
        browser.find_element(By.ID, "key").send_keys(SILVER)
        browser.find_element(By.CSS_SELECTOR, "#login button").click()
        wait.until(lambda b: "silver, small" in b.find_element(By.ID, "pairs").text)
        text = browser.find_element(By.TAG_NAME, "body").text
        assert "other tenants: 0 % of the devices' time" in text and "gold" not in text
        assert "preemptions" not in text and "room for tensors" not in text and "null" not in text
        assert axe.violations(browser) == []
        assert not [
            e for e in browser.get_log("browser") if e["level"] == "SEVERE" and "401" not in e["message"]
        ]


def test_axe_finds_nothing_in_the_live_page(tmp_path: Path) -> None:
    """Before the key, and with tenants, devices and misses to show."""
    axe.source()
    pytest.importorskip("selenium")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    with running(tmp_path) as server, axe.chromium(tmp_path) as browser:
        browser.get(f"http://127.0.0.1:{server.http_port}/")
        wait = WebDriverWait(browser, PATIENCE_S)
        wait.until(lambda b: b.find_element(By.ID, "key").is_displayed())
        assert axe.violations(browser) == []
        send(server, GOLD, 3)
        browser.find_element(By.ID, "key").send_keys(ADMIN)
        browser.find_element(By.CSS_SELECTOR, "#login button").click()
        wait.until(lambda b: "gold, small" in b.find_element(By.ID, "pairs").text)
        assert axe.violations(browser) == []
