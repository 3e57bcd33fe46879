"""What Prometheus reads, judged by its own tools: metrics in both formats, rules and alerts.

`make test` puts promtool into the environment, without installing it.
"""

from __future__ import annotations

import os
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

from eunomia.engines.deploy.text import yaml
from eunomia.engines.deploy.watching import ALERTS, rules
from tests import children
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN
from tests.serving.process import Process, process, write_server

PLACE = Path(sys.prefix) / "tools" / "usr" / "bin"
PROMTOOL = shutil.which("promtool", path=f"{PLACE}{os.pathsep}{os.environ.get('PATH', '')}")
judged = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
OPEN = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with process(write_server(tmp_path_factory.mktemp("server"))) as found:
        assert found.infer() == 200
        yield found


def scrape(server: Process, path: str = "/metrics", accepts: str = "*/*") -> tuple[str, str]:
    asked = {"authorization": f"Bearer {ADMIN}", "accept": accepts}
    request = urllib.request.Request(server.url + path, headers=asked)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read().decode(), answer.headers["content-type"]


@judged
def test_promtool_finds_no_fault_in_the_metrics(server: Process) -> None:
    """As it was, Triton's names, which break the rules for names, stood among them."""
    done = children.run([PROMTOOL, "check", "metrics"], input=scrape(server)[0])
    assert done.returncode == 0 and not done.stdout and not done.stderr, done.stderr


@judged
def test_promtool_finds_no_fault_in_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml(rules()))
    done = children.run([PROMTOOL, "check", "rules", "--lint-fatal", tmp_path / "rules.yaml"])
    assert done.returncode == 0, done.stdout + done.stderr


SERIES = {  # a tenant below its promise, a device that is gone, a policy that is replaced, and what is as it should be
    'eunomia_slo_attainment_ratio{tenant="gold",model="m"}': "0.8x20",
    'eunomia_slo_target_ratio{tenant="gold",model="m"}': "0.9x20",
    'eunomia_slo_attainment_ratio{tenant="silver",model="m"}': "0.9x20",
    'eunomia_slo_target_ratio{tenant="silver",model="m"}': "0.9x20",
    'eunomia_device_alive{device="gpu"}': "0x20",
    'eunomia_device_alive{device="cpu"}': "1x20",
    'eunomia_replicas_news_age_seconds{instance="a"}': "1x20",
    'eunomia_front_end_busy_ratio{instance="a"}': "0.9x20",
    'eunomia_policy_fallbacks{instance="a",reason="slow"}': "0+6x30",
    'eunomia_ledger_lines{instance="a",what="waiting"}': "3x20",
    'eunomia_ledger_lines{instance="a",what="lost"}': "1x20",
    'eunomia_tenant_service_seconds_total{tenant="gold",instance="a"}': "0+30x30",
    'eunomia_tenant_service_seconds_total{tenant="gold",instance="b"}': "0+15x30",
    'eunomia_tenant_service_seconds_total{tenant="silver",instance="a"}': "0+15x30",
}
RAISED = {
    "EunomiaObjectiveMissed": ({"tenant": "gold", "model": "m"}, "gold has 0.8 of m, less than was promised"),
    "EunomiaDeviceGone": ({"device": "gpu"}, "gpu does not answer"),
    "EunomiaReplicasApart": None,
    "EunomiaFrontEndFull": ({"instance": "a"}, "the front end of a is busy 90% of the time"),
    "EunomiaLedgerRefused": (
        {"instance": "a", "what": "waiting"}, "the disk of a refuses the ledger: 3 lines wait, requests get 503",
    ),
    "EunomiaPolicyFallsBack": (
        {"instance": "a", "reason": "slow"}, "the policy of a is replaced by its fallback: slow",
    ),
}  # fmt: skip


@judged
def test_alerts_are_raised_where_they_should_be_and_shares_are_right(tmp_path: Path) -> None:
    """Worked by hand: gold has 45 of 60 device seconds a minute."""
    assert set(RAISED) == set(ALERTS)
    (tmp_path / "rules.yaml").write_text(yaml(rules()))
    series = [{"series": name, "values": values} for name, values in SERIES.items()]
    alerts = [
        {"eval_time": "16m", "alertname": name, "exp_alerts": [] if raised is None else [
            {"exp_labels": {"severity": "warning", **raised[0]}, "exp_annotations": {"summary": raised[1]}}]}
        for name, raised in RAISED.items()
    ]  # fmt: skip
    shares = [
        {"expr": f'eunomia:tenant_share:ratio5m{{tenant="{tenant}"}}', "eval_time": "16m", "exp_samples": [
            {"labels": f'eunomia:tenant_share:ratio5m{{tenant="{tenant}"}}', "value": share}]}
        for tenant, share in (("gold", 0.75), ("silver", 0.25))
    ]  # fmt: skip
    case = {"interval": "1m", "input_series": series, "alert_rule_test": alerts, "promql_expr_test": shares}
    (tmp_path / "test.yaml").write_text(yaml({"rule_files": ["rules.yaml"], "tests": [case]}))
    done = children.run([PROMTOOL, "test", "rules", tmp_path / "test.yaml"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_accepts_openmetrics_gets_it(server: Process) -> None:
    """Prometheus asks for it first."""
    text, kind = scrape(server)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    opened, kind = scrape(server, accepts=f"{OPEN},text/plain;version=0.0.4;q=0.5")
    assert kind.startswith(OPEN) and opened.endswith("# EOF\n")
    names = {family.name for family in read_open(opened)}
    assert names == {f.name for f in read_text(text) if not f.name.endswith("_created")}


@pytest.mark.parametrize(
    "accepts", ["application/openmetrics-text; version=abc", "", "text/plain;version=x", "*/*"]
)
def test_whatever_else_is_accepted_gets_text(server: Process, accepts: str) -> None:
    assert scrape(server, accepts=accepts)[1].startswith("text/plain; version=0.0.4")


def test_names_of_triton_stand_apart(server: Process) -> None:
    """A dashboard made for Triton reads them there."""
    found = {
        s.name: s.value for family in read_text(scrape(server, "/metrics/triton")[0]) for s in family.samples
    }
    assert found["nv_inference_request_success"] == found["nv_inference_exec_count"] == 1.0
    assert all(name.startswith("nv_inference_") for name in found)
