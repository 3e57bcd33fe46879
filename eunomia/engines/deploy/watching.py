"""What watches the servers: rules of Prometheus, and the dashboard of Grafana."""

from __future__ import annotations

from importlib import resources

from eunomia.core.data import Json
from eunomia.engines.deploy.plan import Deployment, Files
from eunomia.engines.deploy.text import yaml

SHARE = "sum by (tenant) (rate(eunomia_tenant_service_seconds_total[5m]))"
ALERTS = {
    "EunomiaObjectiveMissed": (
        "eunomia_slo_attainment_ratio < eunomia_slo_target_ratio",
        "10m",
        "{{ $labels.tenant }} has {{ $value }} of {{ $labels.model }}, less than was promised",
    ),
    "EunomiaDeviceGone": ("eunomia_device_alive == 0", "1m", "{{ $labels.device }} does not answer"),
    "EunomiaReplicasApart": (
        "eunomia_replicas_news_age_seconds > 60",
        "1m",
        "{{ $labels.instance }} has not read the other replicas for {{ $value }} s",
    ),
    "EunomiaFrontEndFull": (
        "eunomia_front_end_busy_ratio > 0.85",
        "5m",
        "the front end of {{ $labels.instance }} is busy {{ $value | humanizePercentage }} of the time",
    ),
    "EunomiaLedgerRefused": (
        'eunomia_ledger_lines{what="waiting"} > 0',
        "30s",
        "the disk of {{ $labels.instance }} refuses the ledger: {{ $value }} lines wait, requests get 503",
    ),
    "EunomiaPolicyFallsBack": (
        "rate(eunomia_policy_fallbacks[10m]) > 0",
        "10m",
        "the policy of {{ $labels.instance }} is replaced by its fallback: {{ $labels.reason }}",
    ),
}


def render(_: Deployment) -> Files:
    """``prometheus/rules.yaml`` and ``grafana/eunomia.json``."""
    dashboard = resources.files("eunomia.serving.observe").joinpath("grafana.json")
    return {
        "prometheus/rules.yaml": yaml(rules()),
        "grafana/eunomia.json": dashboard.read_text(encoding="utf-8"),
    }


def rules() -> Json:
    """Shares over all replicas as recorded series, and alerts."""
    recorded = [
        {"record": "eunomia:tenant_service:rate5m", "expr": SHARE},
        {
            "record": "eunomia:tenant_share:ratio5m",
            "expr": f"{SHARE} / ignoring(tenant) group_left() sum({SHARE})",
        },
    ]
    alerts = [
        {
            "alert": name,
            "expr": expression,
            "for": span,
            "labels": {"severity": "warning"},
            "annotations": {"summary": text},
        }
        for name, (expression, span, text) in ALERTS.items()
    ]
    return {"groups": [{"name": "eunomia", "interval": "15s", "rules": [*recorded, *alerts]}]}
