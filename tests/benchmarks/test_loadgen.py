"""What is read from a summary of MLPerf's LoadGen."""

from __future__ import annotations

import json

from benchmarks.serving.loadgen_client import Query, figures

SERVER = """
SUT name : PySUT
Completed samples per second    : 20.78
Result is : INVALID
  Performance constraints satisfied : Yes
  Early stopping satisfied: NO
Early Stopping Result:
 * Processed 169 queries.
50.00 percentile latency (ns)   : 10622952
99.00 percentile latency (ns)   : 16508642
"""
STREAM = """
99.0th percentile latency (ns) : 28541250
Result is : VALID
50.00 percentile latency (ns)   : 10870012
99.00 percentile latency (ns)   : 28541250
"""


def test_a_summary_says_verdict_latency_and_rate() -> None:
    found = figures(SERVER)
    assert (found["valid"], found["kept"], found["rate_per_s"]) == (False, True, 20.78)
    assert (found["p50_ms"], found["p99_ms"]) == (10.622952, 16.508642)
    found = figures(STREAM)
    assert found["valid"] and not found["kept"] and round(found["p99_ms"], 3) == 28.541


def test_a_query_survives_the_command_line() -> None:
    query = Query("resnet50", 100.0, 2.0, rate_per_s=3.5, url="here:1", tenant="silver")
    assert Query(**json.loads(query.dump())) == query
