"""The load generator: on time, every request counted once, latency from the intended send time."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

from eunomia.cli.load import _print, remark
from eunomia.cli.main import app
from eunomia.config.traffic import traffic_from
from eunomia.core.errors import ConfigError, OutputError
from eunomia.serving.load.client import TritonClient
from eunomia.serving.load.page import render
from eunomia.serving.load.plan import LoadStream, Schedule, draw_schedule
from eunomia.serving.load.result import lateness, percentiles_ms, summarise
from eunomia.serving.load.run import Samples, send_all, shorten
from eunomia.serving.models.entry import Entry
from eunomia.serving.server import Server
from eunomia.study.serving.load import send_load
from eunomia.workload.arrivals import Periodic, Poisson
from tests import children
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD, PROMISED_S, SILVER, running
from tests.simulated_time import run_simulated

STREAMS = [
    LoadStream("gold", "small", Poisson(40.0), PROMISED_S, GOLD),
    LoadStream("silver", "small", Poisson(20.0), 1e-6, SILVER),
]


def test_a_schedule_is_drawn_from_its_seed() -> None:
    one, two = draw_schedule(STREAMS, 5.0, 3), draw_schedule(STREAMS, 5.0, 3)
    np.testing.assert_array_equal(one.time_s, two.time_s)
    assert (np.diff(one.time_s) >= 0).all() and 150 < (one.stream == 0).sum() < 250
    with pytest.raises(ConfigError, match="has 0 requests"):
        draw_schedule([LoadStream("t", "m", Poisson(1e-6), 1.0)], 1.0, 0)


class Slow:
    """Serves one request at a time, 20 ms each: a queue that grows when asked every 10 ms."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def send(self, stream: int) -> None:
        async with self._lock:
            await asyncio.sleep(0.02)
        if stream == 1:
            raise RuntimeError("failed after 17 ms")

    async def close(self) -> None:
        """Nothing is open."""


def sent(schedule: Schedule) -> Samples:
    return run_simulated(lambda clock: send_all(schedule, Slow(), clock=clock))


def test_latency_counts_from_the_intended_time() -> None:
    schedule = draw_schedule([LoadStream("t", "m", Periodic(0.01), 1.0)], 0.3, 0)
    samples = sent(schedule)
    assert len(samples.latency_s) == 30 and not any(samples.error)
    # The k-th answer leaves at (k + 1) * 20 ms, its request came at k * 10 ms: the wait piles up.
    np.testing.assert_allclose(samples.latency_s, 0.02 + 0.01 * np.arange(30))
    np.testing.assert_allclose(samples.lag_s, 0.0, atol=1e-9)


def test_who_has_no_answer_when_draining_ends_is_a_failure() -> None:
    schedule = draw_schedule([LoadStream("t", "m", Periodic(0.01), 1.0)], 0.3, 0)
    samples = run_simulated(lambda clock: send_all(schedule, Slow(), drain_s=0.1, clock=clock))
    # The last leaves at 290 ms; until 390 ms, 19 are answered.
    assert samples.error == [""] * 19 + ["no answer"] * 11
    np.testing.assert_array_equal(np.isnan(samples.latency_s), [False] * 19 + [True] * 11)


def stopped(at_s: float, client: Any) -> Samples:
    """The same, stopped at this time; the first request leaves at 50 ms, the others every 10 ms."""
    schedule = draw_schedule([LoadStream("t", "m", Periodic(0.01), 1.0)], 0.3, 0)

    async def main(clock: Any) -> Samples:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(at_s, stop.set)
        return await send_all(schedule, client, clock=clock, stop=stop)

    return run_simulated(main)


def test_what_was_sent_until_it_was_stopped_counts_and_is_answered() -> None:
    samples = stopped(0.125, Slow())
    assert samples.early and samples.error == [""] * 8
    np.testing.assert_allclose(samples.latency_s, 0.02 + 0.01 * np.arange(8))
    result = summarise(samples, [LoadStream("t", "m", Poisson(1.0), PROMISED_S)])
    assert result["ended_early"] and result["total"]["sent"] == result["total"]["hits"] == 8
    assert "<p>Ended early, by Ctrl-C. 8 requests offered" in render(result, "a load")


@pytest.mark.parametrize(("at_s", "sent", "wall_s"), [(0.125, 8, 2.08), (10.0, 30, 9.95), (0.0, 0, 1.95)])
def test_a_server_that_does_not_answer_holds_a_stopped_load_for_two_seconds(
    at_s: float, sent: int, wall_s: float
) -> None:
    class Silent(Slow):
        async def send(self, stream: int) -> None:
            await asyncio.sleep(1e6)

    samples = stopped(at_s, Silent())
    assert samples.error == ["no answer"] * sent and samples.wall_s == pytest.approx(
        wall_s if sent else -0.05, abs=0.3
    )


def test_ctrl_c_prints_the_table_and_ends_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()

    async def ready(self: TritonClient, shapes: Any, seed: int) -> None:
        """Its inputs are not needed."""

    async def answered(self: TritonClient, stream: int) -> None:
        asked.append(stream)
        if len(asked) == 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(TritonClient, "prepare", ready)
    monkeypatch.setattr(TritonClient, "send", answered)
    words = [
        "load",
        "127.0.0.1:1",
        "--model",
        "small",
        "--rate",
        "200",
        "--set",
        "duration_s=60",
        "--out",
        str(tmp_path),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 130, done.output
    kept = json.loads((tmp_path / "load.json").read_text())
    assert 5 <= kept["total"]["sent"] == kept["total"]["answered"] < 1000 and kept["ended_early"]
    assert "default  small" in done.stdout and "note: ended early, by Ctrl-C" in done.output
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "the next Ctrl-C is Python's"


def test_failures_are_misses_and_are_counted_together() -> None:
    samples = sent(Schedule(np.array([0.0, 0.01, 0.02]), np.array([0, 1, 1])))
    result = summarise(samples, [LoadStream(name, "m", Poisson(1.0), PROMISED_S) for name in "ab"])
    assert result["streams"][0]["hit_rate"] == 1.0
    assert result["streams"][1]["errors"] == {"failed after 17 ms": 2} and result["worst"]["tenant"] == "b"
    assert result["total"]["sent"] == 3 and result["total"]["hits"] == 1
    page = render(result, "a <load>")
    assert "a &lt;load&gt;" in page and "failed after 17 ms (2)" in page and "<polyline" in page


def test_numbers_in_a_failure_are_left_out_only_where_they_differ() -> None:
    """As it was, models were called 'mobilenet-v#' and limits '# requests/s'."""

    class Refuses(Slow):
        sent = 0

        async def send(self, stream: int) -> None:
            self.sent += 1
            limit = f"gold may send 10 requests/s of resnet50 ({self.sent} waited)"
            raise OSError("unknown model 'mobilenet-v2'" if self.sent % 2 else limit)

    schedule = draw_schedule([LoadStream("t", "m", Periodic(0.01), 1.0)], 0.3, 0)
    found = run_simulated(lambda clock: send_all(schedule, Refuses(), clock=clock))
    assert set(found.error) == {
        "unknown model 'mobilenet-v2'",
        "gold may send # requests/s of resnet# (# waited)",
    }


def test_the_warm_up_does_not_count() -> None:
    schedule = Schedule(np.array([0.0, 1.0, 2.0]), np.zeros(3, np.int64))
    samples = Samples(schedule, np.array([9.0, 0.1, np.nan]), np.zeros(3), ["", "", "no answer"], 3.0)
    result = summarise(samples, [LoadStream("a", "m", Poisson(1.0), 1.0)], warmup_s=0.5)
    assert result["total"] | {"latency_ms": None, "errors": None} == {
        "sent": 2, "answered": 1, "hits": 1, "hit_rate": 0.5, "latency_ms": None, "errors": None
    }  # fmt: skip


def test_percentiles_agree_with_the_sorted_list() -> None:
    latency_s = np.random.default_rng(0).lognormal(-3.0, 1.0, 5000)
    ranked = np.sort(latency_s) * 1e3
    for name, value in percentiles_ms(latency_s).items():
        rank = int(np.ceil(float(name[1:]) / 100.0 * 5000)) - 1  # a neighbour's value is right too
        assert 0.998 * ranked[max(rank - 1, 0)] <= value <= 1.002 * ranked[min(rank + 1, 4999)]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_against_a_real_server(plain: Server, protocol: str) -> None:
    url = f"127.0.0.1:{plain.http_port if protocol == 'http' else plain.grpc_port}"
    schedule = draw_schedule(STREAMS, 1.0, 0)

    async def go() -> Samples:
        client = TritonClient(url, protocol, STREAMS, PATIENCE_S)
        await client.prepare({}, 0)
        try:
            return await send_all(schedule, client)
        finally:
            await client.close()

    result = summarise(asyncio.run(go()), STREAMS)
    gold, silver = result["streams"]
    assert gold["sent"] + silver["sent"] == len(schedule.time_s)
    assert gold["answered"] == gold["sent"] and gold["hit_rate"] > 0.9
    assert silver["hits"] == 0  # a deadline of a microsecond


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_networks_without_inputs_and_with_single_numbers(tmp_path: Path, protocol: str) -> None:
    """Over gRPC the client leaves empty lists out: both ended in a traceback."""
    head = '<ir_version: 8, opset_import: ["" : 17]> g '
    networks = {"none": "() => (float[2] c) { c = Constant<value = float[2] {1.0, 2.0}>() }",
                "single": "(float x) => (float y) { y = Neg (x) }"}  # fmt: skip
    for name, text in networks.items():
        onnx.save(onnx.parser.parse_model(head + text), tmp_path / f"{name}.onnx")
    streams = [LoadStream("gold", name, Poisson(1.0), PROMISED_S, GOLD) for name in networks]

    async def asked(url: str) -> None:
        client = TritonClient(url, protocol, streams, PATIENCE_S)
        try:
            await client.prepare({}, 0)
            for n in range(len(streams)):
                await client.send(n)
        finally:
            await client.close()

    entries = [Entry(name, tmp_path / f"{name}.onnx") for name in networks]
    with running(tmp_path, networks=entries, models_dir=None) as server:
        port = server.http_port if protocol == "http" else server.grpc_port
        asyncio.run(asked(f"127.0.0.1:{port}"))


def test_over_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    children.run(
        [
            openssl,
            "req",
            "-x509",
            *curve,
            "-subj",
            "/CN=localhost",
            *named,
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
    )
    stream = {"tenant": "gold", "model": "small", "deadline_ms": PROMISED_S * 1e3, "key_env": "GOLD_KEY",
              "arrivals": {"process": "periodic", "period_s": 0.1}}  # fmt: skip
    with running(tmp_path, tls=(certificate, key)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOLD_KEY", GOLD)
        for protocol, port in (("http", server.http_port), ("grpc", server.grpc_port)):
            sets = [f"protocol={protocol}", f"tls_ca={certificate}", "duration_s=0.5"]
            (sent,) = send_load(traffic_from({"url": f"localhost:{port}", "stream": [stream]}, sets, "load"))[
                "streams"
            ]
            assert sent["answered"] == sent["sent"] > 0
            with pytest.raises(
                OutputError, match=f"cannot be asked at localhost:{port}"
            ):  # nobody vouches for it
                send_load(
                    traffic_from(
                        {"url": f"localhost:{port}", "stream": [stream]}, [sets[0], "tls=true"], "load"
                    )
                )


@pytest.mark.parametrize(
    ("key", "wrong_port", "words"),
    [
        (GOLD, True, "is that its gRPC address"),
        (None, False, "tenant 'gold', without a key, is not let in.*--key-env"),
        (
            "eun_a-key-that-nobody-has",
            False,
            "the key eun_a-ke... is not let in: .*the API key is not valid; put the key",
        ),
    ],
)
def test_who_is_not_answered_is_told_what_may_be_wrong(
    plain: Server, key: str | None, wrong_port: bool, words: str
) -> None:
    url = f"127.0.0.1:{plain.http_port if wrong_port else plain.grpc_port}"

    async def go() -> None:
        client = TritonClient(
            url, "grpc", [LoadStream("gold", "small", Poisson(40.0), PROMISED_S, key)], PATIENCE_S
        )
        try:
            await client.prepare({}, 0)
        finally:
            await client.close()

    with pytest.raises(OutputError, match=words):
        asyncio.run(go())


@pytest.mark.parametrize("error, says", [
    (ValueError("took 3.25 s of 7"), "took # s of #"), (ValueError("  one\ntwo"), "one"), (ValueError(), "ValueError"),
    (ValueError(" \n"), "ValueError"), (ValueError("x" * 200), "x" * 200), (ValueError("x" * 201), "x" * 196 + " ..."),
    (ValueError("word " * 60), "word " * 38 + "word ..."),
    (ValueError("y" * 196 + " " + "z" * 9), "y" * 196 + " ..."),
    (ValueError("y" * 150 + " " + "z" * 99), "y" * 150 + " ..."),
])  # fmt: skip
def test_errors_are_shortened_between_words(error: Exception, says: str) -> None:
    assert shorten(error) == says and len(says) <= 200


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_load_is_named_by_the_owner_of_its_key(
    plain: Server, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, all loads on an address were those of tenant 'default'."""
    monkeypatch.setenv("GOLD_KEY", GOLD)
    monkeypatch.setenv("SILVER_KEY", SILVER)
    streams = [
        {"tenant": "default", "model": "small", "deadline_ms": 1e3, "key_env": key,
         "arrivals": {"process": "poisson", "rate_per_s": 20.0}} for key in ("GOLD_KEY", "SILVER_KEY", "GOLD_KEY")
    ]  # fmt: skip
    url = f"127.0.0.1:{plain.http_port if protocol == 'http' else plain.grpc_port}"
    sets = [f"protocol={protocol}", "duration_s=0.5"]
    result = send_load(traffic_from({"url": url, "stream": streams}, sets, "load"))
    assert [stream["tenant"] for stream in result["streams"]] == ["gold", "silver", "gold"]
    assert result["worst"] is not None and result["worst"]["tenant"] in ("gold", "silver")


@pytest.mark.parametrize(
    "answer", [{}, {"config": {"name": "m"}}, {"config": {"parameters": {}}}, OSError("gone")]
)
def test_a_server_without_tenants_leaves_the_names_of_the_file(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> list[str]:
        client = TritonClient("127.0.0.1:1", "grpc", STREAMS, PATIENCE_S)

        async def config(*_: object, **__: object) -> Any:
            if isinstance(answer, OSError):
                raise answer
            return answer

        monkeypatch.setattr(client._client, "get_model_config", config)
        try:
            return await client.owners()
        finally:
            await client.close()

    assert asyncio.run(go()) == ["gold", "silver"]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_load_of_which_nothing_was_answered_is_status_1(
    plain: Server, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setenv("GOLD_KEY", GOLD)
    words = ["load", f"127.0.0.1:{plain.http_port}", "--model", "small", "--tenant", "gold", "--rate", "20", *more,
             "--key-env", "GOLD_KEY", "--set", "protocol=http", "--set", "duration_s=1"]  # fmt: skip
    assert CliRunner().invoke(app, words).exit_code == 0

    async def refused(self: TritonClient, stream: int) -> None:
        raise OSError("tenant is over its limit")

    monkeypatch.setattr(TritonClient, "send", refused)
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, OutputError) and done.exception.exit_code == 1
    assert re.fullmatch(
        r"not one of \d+ requests was answered: tenant is over its limit", str(done.exception)
    )
    assert '"answered": 0' in done.stdout if more else "tenant is over its limit" in done.stdout


def test_an_address_with_a_key_and_a_deadline_that_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    from eunomia.cli.load import _config
    from eunomia.study.serving.load import load_streams

    monkeypatch.setenv("GOLD_KEY", "eun_secret")
    stream = {"tenant": "gold", "model": "net", "deadline_ms": 50.0, "send_deadline": True, "key_env": "GOLD_KEY",
              "arrivals": {"process": "poisson", "rate_per_s": 5.0}}  # fmt: skip
    (made,) = load_streams(_config("127.0.0.1:8001", stream, []))
    assert (made.key, made.send_deadline, made.deadline_s) == ("eun_secret", True, 0.05)


def test_a_remark_where_answers_came_late_and_none_for_what_failed() -> None:
    def of(sent: int, answered: int, hits: int, lost: int = 0) -> Any:
        total = {"sent": sent, "answered": answered, "hits": hits, "errors": {}}
        return {"total": total, "generator_lag_ms": {"hits_lost": lost}}

    assert remark(of(10, 4, 4)) == "" and remark(of(3, 0, 0)) == ""
    assert remark(of(10, 10, 4)).startswith("40% of the answers came in time")
    assert remark(of(10, 10, 4, lost=5)) == "" and remark(of(10, 10, 4, lost=4)) != ""


@pytest.mark.parametrize(("lag_s", "says"), [
    (0.0, ""), (0.0009, ""), (0.004, "p50, p95 and p99"),
    (0.02, "p50, p95, p99 and the hit rate (50 more would be hits)"),
])  # fmt: skip
def test_what_a_late_generator_adds_is_not_put_on_the_server(lag_s: float, says: str) -> None:
    """As it was, "the load is more than server, network and this machine can do together"."""
    schedule = Schedule(np.arange(100) * 0.01, np.zeros(100, np.int64))
    served_s = np.where(np.arange(100) % 2, 0.03, 0.005)
    samples = Samples(schedule, served_s + lag_s, np.full(100, lag_s), [""] * 100, 1.0)
    result = summarise(samples, [LoadStream("a", "m", Poisson(1.0), 0.04)])
    assert result["generator_lag_ms"]["hits_lost"] == (50 if lag_s == 0.02 else 0)
    assert remark(result) == "", "the server answered each within its deadline"
    words = lateness(result)
    assert (words == "") == (says == "") and f"that is part of {says}" in (words or "that is part of ")
    assert ("<p>The generator itself was late, by up to" in render(result, "a load")) == bool(says)


def test_the_table_names_what_it_measures(capsys: pytest.CaptureFixture[str]) -> None:
    samples = Samples(
        Schedule(np.arange(2) * 0.01, np.zeros(2, np.int64)), np.full(2, 0.1), np.full(2, 0.09), ["", ""], 1.0
    )
    _print(summarise(samples, [LoadStream("a", "m", Poisson(1.0), 0.05)]))
    out = capsys.readouterr()
    assert "latency runs from the intended send time to the answer here" in out.out
    assert (
        out.err.startswith("note: the generator itself was late, by up to 90 ms")
        and len(out.err.splitlines()) == 1
    )
