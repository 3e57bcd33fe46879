"""Parts of a server file that most servers leave out: traces, replicas, harvest."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from eunomia.config.section import Name, NotNegative, Positive, Section, Share, wrong


class TracesConfig(Section):
    """OpenTelemetry traces, by OTLP over HTTP. A request with a ``traceparent`` is traced as its flag says."""

    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    sample: Share = 0.0  # of the requests without one

    @model_validator(mode="after")
    def _has_a_port(self) -> Self:
        try:
            parts = urlsplit(self.endpoint)
            named = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
        except ValueError:
            named = False
        if not named:
            raise wrong(
                f"endpoint = '{self.endpoint}' names no host and port behind http:// or https://; write "
                "http://HOST:4318/v1/traces"
            )
        return self


class ReplicasConfig(Section):
    """Several servers on one database keep one set of promises. Times: see serving/replicas/rule.py."""

    name: Annotated[str, Field(max_length=200)] = ""  # of this server; default: its host's name and port
    exchange_ms: Annotated[float, Field(ge=10.0, le=60_000.0)] = 250.0  # between two looks at the others
    hold_s: NotNegative = 60.0  # without the database, the last known rates stay in force so long
    memory_s: Positive = (
        0.25  # of device time per replica: no tenant gets further ahead by what others served
    )
    group: Annotated[str, Field(max_length=80)] = ""  # servers of one look at each other, groups at totals
    between_ms: Annotated[float, Field(ge=10.0, le=60_000.0)] = 250.0  # between two looks at other groups

    @model_validator(mode="after")
    def _seldom(self) -> Self:
        if self.group and "between_ms" in self.model_fields_set and self.between_ms < self.exchange_ms:
            raise wrong(
                f"between_ms = {self.between_ms:g} is less than exchange_ms = {self.exchange_ms:g}; "
                "other groups are looked at no more often than servers of one's own"
            )
        return self


class HarvestConfig(Section):
    """Tenants who take what others leave: how it is foreseen stands in serving/dispatch/harvest.py."""

    tenants: list[Name] = Field(min_length=1)
    forecast: Literal["ar1", "persistence"] = "persistence"
    step_ms: Annotated[float, Field(ge=10.0, le=60_000.0)] = (
        1000.0  # between two samples; longer than requests
    )
    room: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0  # of device time and memory, for all tenants together
