"""A device of the live server, in the words of its file."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from eunomia.config.section import Name, Section, wrong
from eunomia.serving.devices.backends import BackendName
from eunomia.serving.devices.places import PlaceName


class DeviceConfig(Section):
    """One device: a core set of this machine, a GPU by ``cuda``, ``tensorrt`` or ``torch`` (or cores), or a Ray actor.

    ``on = "ray"``: on a node that has one ``resource`` (default: a free CPU) of the cluster at ``address``.
    """

    name: Name
    backend: BackendName = "cpu"
    cores: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list)
    gpu: Annotated[int, Field(ge=0)] | None = None  # of several
    spin_ms: Annotated[float, Field(ge=0.0, le=1000.0)] = (
        5.0  # with cores of its own: looks for work before it sleeps
    )
    memory_mib: Annotated[float, Field(ge=0.0)] | None = (
        None  # for networks and tensors in work; default: its part of 3/4 of the machine's, 0 = any
    )
    spare: bool = (
        True  # cpu only: a process stands by with the same networks, where there is memory for them twice
    )
    on: PlaceName = "process"
    address: Annotated[str, Field(pattern=r"^(auto|[^\s/]+:[0-9]+)$")] | None = (
        None  # default: auto, as Ray finds it
    )
    resource: Annotated[str, Field(pattern=r"^[\w.:-]+$")] | None = (
        None  # that nodes state, one for each device
    )

    @model_validator(mode="after")
    def _of_its_place(self) -> Self:
        if self.backend != "cpu" and self.spare and "spare" in self.model_fields_set:
            raise wrong(
                f"device '{self.name}': nothing stands by for backend = \"{self.backend}\"; take spare out"
            )
        own = (
            ("cores", "gpu", "memory_mib", "spare", "spin_ms")
            if self.on == "ray"
            else ("address", "resource")
        )
        for name in own:
            if name in self.model_fields_set:
                other = "without" if self.on == "ray" else "with"
                raise wrong(f"device '{self.name}': {name} is for a device {other} on = \"ray\"; take it out")
        return self
