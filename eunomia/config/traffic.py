"""``load.toml``: what ``eunomia load`` sends, and where."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from eunomia.config.arrivals import ArrivalsConfig, Count
from eunomia.config.complaints import config_error
from eunomia.config.load import read_table
from eunomia.config.overrides import Table, apply_overrides, parse_overrides
from eunomia.config.section import FilePath, Name, NotNegative, Positive, Section, wrong

SCHEMES = {
    "http": ("http", False),
    "https": ("http", True),
    "grpc": ("grpc", False),
    "grpcs": ("grpc", True),
}  # protocol, with TLS


class StreamConfig(Section):
    """One tenant's requests for one network. ``key_env``: environment variable that holds its API key."""

    tenant: Name
    model: Name
    arrivals: ArrivalsConfig
    deadline_ms: Positive
    key_env: Name | None = None
    send_deadline: bool = False


class LoadConfig(Section):
    """The load as a whole. ``url``: HOST:PORT, of gRPC unless ``protocol`` says otherwise, or as a server prints it."""

    url: Name = "127.0.0.1:8001"
    protocol: Literal["http", "grpc"] = "grpc"
    tls: bool = False  # with the authorities of this machine
    tls_ca: FilePath | None = None  # TLS with the certificates of this file instead
    duration_s: Positive = 15.0
    warmup_s: NotNegative = 0.0
    timeout_s: Positive = 30.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    shapes: dict[str, list[Count]] = Field(default_factory=dict)  # of inputs with free sizes
    stream: list[StreamConfig] = Field(min_length=1, max_length=10_000)

    @model_validator(mode="before")
    @classmethod
    def _as_printed(cls, data: object) -> object:
        """``https://HOST:PORT`` says protocol and TLS, too."""
        if not isinstance(data, dict) or not isinstance(url := data.get("url"), str):
            return data
        scheme, found, place = url.partition("://")
        if not found or scheme not in SCHEMES:
            return data
        protocol, tls = SCHEMES[scheme]
        if data.get("protocol", protocol) != protocol:
            raise wrong(
                f"url is '{url}', and protocol '{data['protocol']}': leave protocol out, or write url as HOST:PORT"
            )
        return {"protocol": protocol, "tls": tls} | data | {"url": place.rstrip("/")}

    @model_validator(mode="after")
    def _measures_something(self) -> Self:
        if self.warmup_s >= self.duration_s:
            raise wrong(
                f"warmup_s ({self.warmup_s:g}) is not less than duration_s ({self.duration_s:g}), and what is sent in "
                "the warm-up does not count: nothing would be measured"
            )
        return self


def load_traffic(path: str | Path, overrides: Iterable[str] = ()) -> LoadConfig:
    """Read a load file; raises ConfigError naming key path, value and what is allowed."""
    path = Path(path)
    return traffic_from(read_table(path, "load file"), overrides, str(path), path.parent)


def traffic_from(
    data: Table, overrides: Iterable[str], source: str, folder: Path | None = None
) -> LoadConfig:
    """Validate a dictionary; raises ConfigError."""
    changed = apply_overrides(data, parse_overrides(overrides))
    try:
        return LoadConfig.model_validate(changed, context={"folder": folder})
    except ValidationError as error:
        raise config_error(error, changed, source) from None
