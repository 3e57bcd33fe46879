"""MLPerf's LoadGen as a client: one tenant's queries in a process of its own, since LoadGen keeps one test per process.

    python -m benchmarks.serving.loadgen_client '{"url": ..., "tenant": ..., "model": ..., ...}'

Needs the package mlcommons-loadgen. Prints what LoadGen's summary says, as JSON.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.live import CACHE
from benchmarks.serving.load import IMAGE
from benchmarks.serving.machine import cores, pin

Done = Callable[[bool], None]  # whether the query was answered
WARM_UP = 5  # queries before the test
LATER = 1.05  # a query without an answer ends at this share of its bound, so that LoadGen counts it as late
FIGURE = re.compile(r"^(?P<name>[^:\n]+?)\s*:\s*(?P<value>\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Query:
    """What to send. ``url``: of the gRPC server; None = a bare ONNX Runtime session in this process.

    ``rate_per_s``: 0 = the scenario MultiStream, with eight samples at once; else Server (Poisson). ``seconds`` and
    ``count``: the least; LoadGen calls no run valid whose queries are too few to be sure of a 99th percentile.
    """

    model: str
    bound_ms: float
    seconds: float
    count: int = 1
    rate_per_s: float = 0.0
    url: str | None = None
    tenant: str = "gold"
    seed: int = 0

    def dump(self) -> str:
        """As the command line takes it."""
        return json.dumps(asdict(self))


def main() -> None:
    """One test."""
    query = Query(**json.loads(sys.argv[1]))
    send = stock_client(query) if query.url else bare_session(query)
    print(json.dumps(tested(query, send)))


def stock_client(query: Query) -> Callable[[Done], None]:
    """tritonclient's asynchronous gRPC calls with one picture."""
    from tritonclient.grpc import InferenceServerClient, InferInput

    client = InferenceServerClient(query.url)
    picture = InferInput("image", list(IMAGE.shape), "FP32")
    picture.set_data_from_numpy(np.random.default_rng(query.seed).random(IMAGE.shape, np.float32))
    named = {"x-tenant-id": query.tenant}
    for _ in range(WARM_UP):
        client.infer(query.model, [picture], headers=named)

    def send(done: Done) -> None:
        client.async_infer(query.model, [picture], lambda result, error: done(error is None), headers=named)

    return send


def bare_session(query: Query) -> Callable[[Done], None]:
    """The network alone with one thread on the device's core, one query after another."""
    import onnxruntime as ort

    from eunomia.serving.blocks.optimise import session_options
    from eunomia.serving.models.builtin import builtin_file

    file = str(builtin_file(query.model, CACHE))
    session = ort.InferenceSession(file, session_options(), providers=["CPUExecutionProvider"])
    picture = np.random.default_rng(query.seed).random(IMAGE.shape, np.float32)
    line = ThreadPoolExecutor(1, initializer=pin, initargs=(cores().device,))
    line.submit(session.run, None, {"image": picture}).result()

    def answer(done: Done) -> None:
        session.run(None, {"image": picture})
        done(True)

    def send(done: Done) -> None:
        line.submit(answer, done)

    return send


def tested(query: Query, send: Callable[[Done], None]) -> dict[str, Any]:
    """LoadGen's own verdict and figures."""
    import mlperf_loadgen as lg

    failed = Counter[str]()

    def issue(samples: Sequence[Any]) -> None:
        for sample in samples:
            send(partial(ended, sample.id))

    def ended(number: int, answered: bool) -> None:
        if answered:
            complete(number)
        else:
            failed["failed"] += 1
            threading.Timer(query.bound_ms * 1e-3 * LATER, complete, [number]).start()

    def complete(number: int) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(number, 0, 0)])

    settings = lg.TestSettings()
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_duration_ms = int(query.seconds * 1e3)
    settings.min_query_count = query.count
    settings.schedule_rng_seed = settings.sample_index_rng_seed = settings.qsl_rng_seed = query.seed + 1
    if query.rate_per_s:
        settings.scenario = lg.TestScenario.Server
        settings.server_target_qps = query.rate_per_s
        settings.server_target_latency_ns = int(query.bound_ms * 1e6)
    else:
        settings.scenario = lg.TestScenario.MultiStream
        settings.multi_stream_expected_latency_ns = int(query.bound_ms * 1e6)
    with tempfile.TemporaryDirectory() as folder:
        log = lg.LogSettings()
        log.log_output.outdir, log.log_output.copy_summary_to_stdout = folder, False
        log.enable_trace = False
        under_test = lg.ConstructSUT(issue, lambda: None)
        library = lg.ConstructQSL(1, 1, lambda samples: None, lambda samples: None)
        lg.StartTestWithLogSettings(under_test, library, settings, log)
        said = Path(folder, "mlperf_log_summary.txt").read_text()
    lg.DestroyQSL(library)
    lg.DestroySUT(under_test)
    return {**figures(said), "failed": failed["failed"]}


def figures(said: str) -> dict[str, Any]:
    """Verdict, latencies [ms] and rate of a summary."""
    found = {match["name"].strip(): match["value"] for match in FIGURE.finditer(said)}
    rate = found.get("Completed samples per second") or found.get("Samples per second") or "nan"
    return {
        "valid": found["Result is"] == "VALID",
        "kept": found.get("Performance constraints satisfied")
        == "Yes",  # the 99th percentile is within the bound
        "p99_ms": float(found["99.00 percentile latency (ns)"]) * 1e-6,
        "p50_ms": float(found["50.00 percentile latency (ns)"]) * 1e-6,
        "rate_per_s": float(rate),
        "summary": said,
    }


if __name__ == "__main__":
    main()
