"""What shall run where: the value from which all files are rendered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eunomia.core.errors import ConfigError

DATABASE = "postgresql://eunomia@eunomia-postgres:5432/postgres"  # the password comes from PGPASSWORD
HOME, MODELS, CACHE = "/var/lib/eunomia", "/opt/eunomia/models", "/var/cache/eunomia"
HTTP_PORT, GRPC_PORT, POSTGRES_PORT = 8000, 8001, 5432
COMMAND = ("eunomia", "serve", "server.toml")
PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
IMAGE = re.compile(  # as container engines read it: only the host may have capitals
    rf"(?:(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?/)?{PART}(?:/{PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
BRACES = '{{ "{{" }}'  # what Helm makes two braces of


class Raw(str):
    """Text that goes into YAML as it is: an expression of Helm."""


@dataclass(frozen=True)
class Deployment:
    """One server file on several replicas, with their database.

    ``server_toml``: the file as it stands in every replica. ``models``: where the image takes each network's file from.
    ``cpus``, ``memory_mib``, ``shared_mib``, ``gpus``: of one replica; the arena of tensors lies in shared memory.
    ``extras``: of Eunomia, in the image. ``cuda``: ONNX Runtime with its CUDA provider, in place of the usual one.
    """

    server_toml: str
    models: Mapping[str, str] = field(
        default_factory=dict
    )  # name in the image -> path beside the Containerfile
    image: str | Raw = "localhost/eunomia:latest"
    postgres_image: str | Raw = "localhost/eunomia-postgres:latest"
    replicas: int | Raw = 2
    cpus: int | Raw = 2
    memory_mib: int = 2048
    shared_mib: int = 320
    gpus: int = 0
    extras: tuple[str, ...] = ("serve", "postgres")
    cuda: bool = False
    storage: str | Raw = "8Gi"
    drain_s: float = 10.0
    traces_port: int | None = None
    hosts: tuple[str, ...] = ()  # for HAProxy; () = one name per replica

    def __post_init__(self) -> None:
        for option, image in (("--image", self.image), ("--postgres-image", self.postgres_image)):
            if not isinstance(image, Raw) and IMAGE.fullmatch(image) is None:
                raise ConfigError(
                    f"{option} '{image}': write [REGISTRY[:PORT]/]NAME[:TAG][@sha256:DIGEST], NAME in small letters, "
                    "for example registry.example:5000/team/eunomia:1.0"
                )


Files = dict[str, str]  # path -> content
Renderer = Callable[[Deployment], Files]
