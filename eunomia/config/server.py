"""``server.toml``: devices, networks, tenants and limits of the live server."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, model_validator

from eunomia.config.complaints import config_error
from eunomia.config.demand import SloConfig
from eunomia.config.device import DeviceConfig
from eunomia.config.load import read_table
from eunomia.config.overrides import Table, apply_overrides, parse_overrides
from eunomia.config.section import FilePath, Name, NotNegative, PolicyText, Positive, Section, wrong
from eunomia.config.server_options import HarvestConfig, ReplicasConfig, TracesConfig
from eunomia.config.trial_shapes import TrialShapes, check_sizes
from eunomia.core.errors import ConfigError

Port = Annotated[int, Field(ge=0, le=65535)]  # 0 = any free one
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Mib = Annotated[float, Field(gt=0.0, le=1_048_576.0)]


PLACEHOLDER = "PASTE-KEY_SHA256-HERE"  # in examples/serving/server.toml
PUBLISHED_KEY = "eun_change-me"  # of an earlier example
PUBLISHED = "8cd76a068d236475fda07b293c3f769d64f173b9042409a5c68bf1d698530f7d"  # its hash


def _key_hash(value: str) -> str:
    """What ``eunomia serve key`` calls key_sha256; the value is not repeated, for it may be a key."""
    if value == PLACEHOLDER:
        raise wrong("there is no key yet: run `eunomia serve key` and paste the key_sha256 that it prints")
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise wrong(
            f"this is {_kind_of(value)}; the key's SHA-256 is expected, 64 digits 0-9 a-f, as `eunomia serve key` "
            "prints it"
        )
    if value == PUBLISHED:
        raise wrong(
            f"this is the hash of '{PUBLISHED_KEY}', which stood in an earlier example and is known to everybody: run "
            "`eunomia serve key` and paste the key_sha256 that it prints"
        )
    return value


def _kind_of(value: str) -> str:
    """What stands there in place of a hash, without repeating it."""
    if value.startswith("eun_"):
        return "a key"
    if len(value) != 64:
        return f"{len(value)} characters"
    at = next(n for n, digit in enumerate(value, 1) if digit not in "0123456789abcdef")
    return f"not hexadecimal (digit {at} is none of 0-9 a-f)"


def _beside(value: object, info: ValidationInfo) -> object:
    """A file or folder that the server writes, relative to the server file's folder whether it exists or not."""
    folder = (info.context or {}).get("folder")
    if not isinstance(value, str) or not value or folder is None:
        return value
    return str((Path(folder) / Path(value).expanduser()).resolve())


def _database_beside(value: object, info: ValidationInfo) -> object:
    """The same for the file in an SQLite URL."""
    found = SQLITE.fullmatch(value) if isinstance(value, str) else None
    if found is None or found["file"] == ":memory:" or found["file"].startswith("file:"):
        return value
    return f"{found['driver']}:///{_beside(found['file'], info)}{found['more']}"


SQLITE = re.compile(r"(?P<driver>sqlite(\+pysqlite)?):///(?P<file>[^?]+)(?P<more>(\?.*)?)")
Kept = Annotated[str, Field(min_length=1), BeforeValidator(_beside)]
DatabaseUrl = Annotated[str, Field(min_length=1), BeforeValidator(_database_beside)]
KeyHash = Annotated[str, AfterValidator(_key_hash)]


def _without_slash(name: str) -> str:
    if "/" in name:
        better = name.strip("/").replace("/", "-") or "network"
        raise wrong(f"'{name}' holds '/', which parts names from versions: write '{better}'")
    return name


def _printable(name: str) -> str:
    """A line of the log stays one, and a header can name it."""
    if not name.isprintable() or name != name.strip():
        raise wrong(f"{name!r} begins or ends with a blank, or holds what cannot be printed: leave it out")
    return name


ShownName = Annotated[Name, AfterValidator(_printable)]


class NetworkConfig(Section):
    """A network to load at the start: an ONNX file, or one that is built in code."""

    name: Annotated[ShownName, AfterValidator(_without_slash)]
    onnx: FilePath | None = None
    builtin: Literal["mobilenet-v2", "resnet50"] | None = None
    shapes: TrialShapes = Field(default_factory=dict)  # of inputs with free sizes, for the trial run
    empty: bool | None = None  # inputs may be so behind the first axis; None = where a trial of the sizes ran
    rows_apart: bool | None = None  # each row is answered as if it were alone; None = where that is proven
    labels: dict[str, FilePath] = Field(
        default_factory=dict
    )  # of outputs: a text file with a label a line, as Triton's label_filename

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.onnx is not None and self.builtin is not None:
            raise wrong(f"network '{self.name}' has both onnx and builtin: take one of them out")
        if self.onnx is None and self.builtin is None:
            raise wrong(f'network \'{self.name}\' needs onnx = "FILE" or builtin = "NAME"')
        check_sizes(self.shapes, self.empty)
        return self


class ObjectiveConfig(Section):
    """Deadline and SLO of a tenant for one network (``"*"``: for every other).

    ``min_deadline_ms``: the shortest deadline that its clients may claim; default: ``deadline_ms``, 0 = any.
    """

    model: Name
    deadline_ms: Positive
    min_deadline_ms: NotNegative | None = None
    slo: SloConfig | None = None
    priority: Positive = 1.0

    @model_validator(mode="after")
    def _claims_within_the_deadline(self) -> Self:
        if self.min_deadline_ms is not None and self.min_deadline_ms > self.deadline_ms:
            raise wrong(
                f"min_deadline_ms ({self.min_deadline_ms:g}) is the shortest deadline that a client may claim; "
                f"it is at most deadline_ms ({self.deadline_ms:g})"
            )
        return self


class ServedTenantConfig(Section):
    """A tenant: share, limits and objectives. ``promise`` is the former name of ``objectives``."""

    name: ShownName
    role: Literal["tenant", "admin"] = "tenant"
    weight: Positive = 1.0
    rate_per_s: Positive | None = None
    burst: Positive = 10.0
    max_concurrency: Count = 1000
    max_request_mib: Mib = 64.0
    max_block_ms: NotNegative | None = None  # as the server's, for this tenant
    device_s_per_day: Positive | None = None  # device time from midnight to midnight, UTC
    models: list[Name] | None = None
    objectives: list[ObjectiveConfig] = Field(default_factory=list)
    promise: list[ObjectiveConfig] = Field(default_factory=list)
    key_sha256: list[KeyHash] = Field(default_factory=list)  # see ``eunomia serve key``

    @model_validator(mode="after")
    def _one_objective_each(self) -> Self:
        twice = _twice([objective.model for objective in self.agreed])
        if twice:
            raise wrong(f"tenant '{self.name}' has two objectives for '{twice}'")
        return self

    @property
    def agreed(self) -> list[ObjectiveConfig]:
        """Its objectives, under either name."""
        return [*self.objectives, *self.promise]

    @property
    def named(self) -> dict[str, str]:
        """Networks that it names, each with the key that does."""
        agreed = {one.model: "objectives" for one in self.agreed if one.model != "*"}
        return {**dict.fromkeys(self.models or (), "models"), **agreed}


class ServerConfig(Section):
    """The server as a whole. Relative paths start from the file's folder."""

    host: Name = "127.0.0.1"
    http_port: Port = 8000
    grpc_port: Port | None = 8001
    anonymous: bool = False  # callers without a key are told apart by headers
    min_deadline_ms: NotNegative = 0.0  # for tenants without an objective; 0 = clients may claim any deadline
    policy: PolicyText = "fair_edf"
    fallback: Name = "edf+f"
    lease_ms: Annotated[float, Field(ge=0.0)] = 100.0
    ahead_ms: Annotated[float, Field(ge=0.0)] = 3.0
    starve_ms: Annotated[float, Field(ge=0.0)] = 1000.0  # 0 = hopeless requests may wait for ever
    block_ms: Positive = 1.5
    max_block_ms: NotNegative | None = (
        None  # no request holds a device longer; default: half the shortest deadline promised to others, 0 = any
    )
    calm_ms: Annotated[float, Field(ge=0.0)] = (
        10_000.0  # networks run in one piece after so long a calm; 0 = never
    )
    late: Literal["last", "drop"] = "last"
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 1
    placement: Literal["policy", "least_degradation"] = "policy"  # which idle device a request begins on
    co_runs: Kept | None = (
        None  # CSV: by how much networks slow each other; read at the start, learned, written at the end
    )
    arena_mib: Mib = 256.0
    max_body_mib: Mib = 64.0
    max_json_mib: Mib = 32.0  # of a message whose numbers are JSON; raw tensors need none
    drain_s: Positive = 10.0
    max_connections: Count = (
        10_000  # over HTTP, and as many over gRPC; those that have waited longest end first
    )
    head_s: Positive = 10.0  # for the first header of a connection
    idle_s: Positive = 75.0  # between two requests
    body_s: Positive = 30.0  # for a body
    shared_memory: bool = (
        False  # for callers on this machine; keys start with the tenant: /gold:NAME, /gold@NAME
    )
    models_dir: FilePath | None = None
    load_all: bool = False  # of models_dir, at each start; else an administrator loads what shall serve
    versions: Annotated[int, Field(ge=1, le=100)] = 1  # of models_dir/NAME/N: so many of the newest
    database: DatabaseUrl | None = (
        None  # tenants live there: sqlite:///PATH or postgresql://...; the file's are added once
    )
    harvest: HarvestConfig | None = None  # default: every tenant by the policy alone
    replicas: ReplicasConfig | None = None  # several servers share the tenants of one database
    policy_dir: Kept | None = None  # policies that were promoted; without it a restart forgets them
    ledger_dir: Kept | None = None
    audit_dir: Kept | None = None  # a JSON line per request, rotated; floods of refusals are counted
    audit_whole: bool = False  # each refusal has a line, too: a flood may fill the disk
    traces: TracesConfig | None = None
    device_watts: Annotated[float, Field(ge=0.0)] = 0.0
    cache_dir: Kept | None = None
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    device: list[DeviceConfig] = Field(min_length=1, max_length=256)
    network: list[NetworkConfig] = Field(default_factory=list)
    tenant: list[ServedTenantConfig] = Field(min_length=1)

    @property
    def _networks(self) -> list[str]:
        return [network.name for network in self.network]

    @property
    def unknown(self) -> list[str]:
        """What tenants say of networks that are not among those of the file: half a sentence each."""
        return [
            f"tenant '{tenant.name}' names '{model}' ({key})"
            for tenant in self.tenant
            for model, key in tenant.named.items()
            if model not in self._networks
        ]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for what, names in (
            ("device", [d.name for d in self.device]),
            ("network", [n.name for n in self.network]),
            ("tenant", [t.name for t in self.tenant]),
        ):
            if twice := _twice(names):
                raise wrong(f"two {what}s are called '{twice}'; names must differ")
        if not self.network and self.models_dir is None:
            raise wrong("there is nothing to serve: add a [[network]], or models_dir, a folder of ONNX files")
        if self.load_all and self.models_dir is None:
            raise wrong("load_all is true, and there is no models_dir of which all could be loaded; give one")
        if self.unknown and self.models_dir is None:
            raise wrong(f"{self.unknown[0]}, which is none of the networks: {', '.join(self._networks)}")
        if self.http_port and self.http_port == self.grpc_port:
            raise wrong(f"http_port and grpc_port are both {self.http_port}: each needs a port of its own")
        for device in self.device:
            if len(set(device.cores)) < len(device.cores):
                raise wrong(f"device '{device.name}' has a core twice: cores = {device.cores}")
            missing = [core for core in device.cores if core >= (os.cpu_count() or 1)]
            if missing:
                last = (os.cpu_count() or 1) - 1
                raise wrong(
                    f"device '{device.name}' has core {missing[0]}; this machine has 0 to {last}: "
                    f"give cores = [{last}], or leave cores out, for any"
                )
        owners: dict[str, str] = {}
        for tenant in self.tenant:
            for digest in tenant.key_sha256:
                if (other := owners.setdefault(digest, tenant.name)) != tenant.name:
                    raise wrong(
                        f"tenants '{other}' and '{tenant.name}' have the same key ({digest[:8]}...); a key names one "
                        "tenant: make another by `eunomia serve key`"
                    )
        if len({device.backend for device in self.device}) > 1:
            raise wrong("devices of one server have one backend: half-done requests move between them")
        named = {tenant.name for tenant in self.tenant}
        for name in self.harvest.tenants if self.harvest else ():
            if name not in named and self.database is None:
                raise wrong(f"harvest names tenant '{name}'; the tenants are: {', '.join(sorted(named))}")
        if self.replicas is not None and self.database is None:
            raise wrong('replicas meet in a database: add database = "postgresql://USER@HOST/NAME"')
        if self.placement != "policy" and len(self.device) < 2:
            raise wrong(
                f"placement = '{self.placement}' chooses between devices, and there is one; list another"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise wrong("TLS needs both tls_cert and tls_key")
        keyed = any(t.key_sha256 for t in self.tenant)
        if not self.anonymous and not keyed and self.database is None:
            raise wrong(
                "nobody could use this server: give a tenant key_sha256 (eunomia serve key), or anonymous = true"
            )
        return self


def load_server(path: str | Path, overrides: Iterable[str] = ()) -> ServerConfig:
    """A server file's; a network or a folder needs none. Raises ConfigError naming key path, value, what is allowed."""
    if str(path) == "":
        raise ConfigError("the path of a server file, a network or a folder of networks is empty; give one")
    path = Path(path)
    if path.is_dir() or path.suffix.lower() == ".onnx":
        return server_from(_without_a_file(path), overrides, str(path), None)
    return server_from(read_table(path, "server file"), overrides, str(path), path.parent)


def _without_a_file(path: Path) -> Table:
    """For callers of this machine, who state their tenant or are ``default``; one process on its cores."""
    found: Table = {"anonymous": True, "device": [{"name": "cpu"}], "tenant": [{"name": "default"}]}
    if path.is_dir():
        return found | {"models_dir": str(path), "load_all": True}
    parts = Path(os.path.abspath(path)).with_suffix("").parts
    if parts[-1] == "model":  # NAME/model.onnx, NAME/N/model.onnx
        parts = tuple(part for part in parts[:-1] if not part.isdecimal())
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", parts[-1]).strip("._-") or "network"
    return found | {"network": [{"name": name, "onnx": str(path)}]}


def demo_server(overrides: Iterable[str] = ()) -> ServerConfig:
    """The server of ``eunomia serve demo``."""
    text = resources.files("eunomia").joinpath("data/serve_demo.toml").read_text(encoding="utf-8")
    return server_from(tomllib.loads(text), overrides, "serve_demo.toml", None)


def server_from(data: Table, overrides: Iterable[str], source: str, folder: Path | None) -> ServerConfig:
    """Validate a dictionary; raises ConfigError."""
    changed = apply_overrides(data, parse_overrides(texts := list(overrides)))
    lacking = [table for table in ("device", "tenant") if table not in changed]
    unknown = changed.keys() - ServerConfig.model_fields.keys()
    if lacking and not any(get_close_matches(key, lacking) for key in unknown):  # else that says more
        raise ConfigError(f"{source}: there is no [[{lacking[0]}]]; a server needs one at least")
    try:
        return ServerConfig.model_validate(changed, context={"folder": folder})
    except ValidationError as error:
        if texts and _valid(data, folder):
            source += "".join(f" --set {text}" for text in texts)
        raise config_error(error, changed, source, ServerConfig.model_fields) from None


def _valid(data: Table, folder: Path | None) -> bool:
    """Whether the file is right as it stands, so that what is wrong was set by hand."""
    try:
        ServerConfig.model_validate(data, context={"folder": folder})
    except ValidationError:
        return False
    return True


def _twice(names: list[str]) -> str | None:
    """The first name that stands there more than once."""
    return min((name for name in names if names.count(name) > 1), default=None)
