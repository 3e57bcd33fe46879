"""System shared memory that local clients register, so that tensors need not travel.

Large tensors are read and written beside the event loop. An object stays open until the last request that uses it has
done so: to unregister it meanwhile closes nothing that another tenant's object could be opened in place of.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TypedDict
from weakref import WeakSet

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.strings import BYTES, Strings, Value
from eunomia.serving.protocol.closing import closer
from eunomia.serving.protocol.errors import BadRequest, NotFound, Refused
from eunomia.serving.protocol.infer import InferRequest, InputTensor, SharedRegion
from eunomia.serving.protocol.pieces import Unread
from eunomia.serving.protocol.raw import nbytes
from eunomia.serving.protocol.strings import MAX_TEXT_BYTES, contiguous, raw_bytes, raw_strings

MAX_REGIONS = 128  # of all tenants, and objects that requests still use: each is an open file of the server's
KEY = re.compile(r"/?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,99}([:@][A-Za-z0-9._-]{1,100})?)")
OWNED = (
    ":",
    "@",
)  # one is behind the tenant in a key, and nowhere else; older Pythons' resource trackers fail on ":"


class Placement(TypedDict):
    """A region as its tenant sees it."""

    name: str
    key: str
    offset: int
    byte_size: int


class Opened:
    """An object of shared memory; it closes once neither its region nor a request holds it any more."""

    __slots__ = ("__weakref__", "_close", "descriptor", "tenant")

    def __init__(self, descriptor: int, tenant: str = "") -> None:
        self._close, self.descriptor, self.tenant = closer(), descriptor, tenant

    def __del__(self) -> None:
        self._close(self.descriptor)


@dataclass
class _Region:
    key: str
    offset: int
    size: int
    opened: Opened


class RegionTensor(Unread):
    """A tensor in a client's memory: shape and type of an array, and its bytes on request."""

    def __init__(
        self, region: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], opened: Opened, start: int
    ) -> None:
        super().__init__(dtype, shape)
        self.region, self.opened, self.start = region, opened, start

    def read_into(self, target: Tensor) -> None:
        """Copy its bytes there; raises BadRequest."""
        room, at = raw_bytes(target), 0
        while at < self.nbytes:  # Linux reads at most 0x7ffff000 bytes per call
            try:
                read = os.preadv(self.opened.descriptor, [room[at:]], self.start + at)
            except OSError as error:
                raise BadRequest(
                    f"shared memory region '{self.region}' cannot be read: {error.strerror}"
                ) from None
            if read == 0:
                raise BadRequest(
                    f"shared memory region '{self.region}' has become smaller since it was registered"
                )
            at += read


@dataclass(frozen=True)
class _Write:
    region: str
    opened: Opened
    content: memoryview
    start: int

    def carry_out(self) -> None:
        """Raises BadRequest."""
        if os.fstat(self.opened.descriptor).st_size < self.start + len(self.content):
            raise BadRequest(f"shared memory region '{self.region[:100]}' has become smaller")
        at = 0
        try:
            while at < len(self.content):  # Linux writes at most 0x7ffff000 bytes per call
                at += os.pwrite(self.opened.descriptor, self.content[at:], self.start + at)
        except OSError as error:
            raise BadRequest(
                f"shared memory region '{self.region[:100]}' cannot be written: {error.strerror}"
            ) from None


@dataclass(frozen=True)
class Placing:
    """Outputs on their way to where the client wants them; ``where``: by name."""

    where: Mapping[str, SharedRegion]
    writes: tuple[_Write, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(len(one.content) for one in self.writes)

    def carry_out(self) -> None:
        """In any thread; raises BadRequest."""
        for one in self.writes:
            one.carry_out()


class Regions:
    """Registered regions, each seen by its own tenant alone.

    A key names a POSIX shared memory object and never a path; it must belong to the server's user. With
    ``owned`` its name must start with the tenant's and a sign, ``/gold:pictures``: otherwise whoever guesses
    a name reads and overwrites what another tenant keeps there. It is read and written with system calls and
    never mapped: a client that shrinks its object in the middle of a request gets an error, where a mapping
    would end the server.
    """

    def __init__(self, folder: str = "/dev/shm", *, offered: bool = True, owned: bool = True) -> None:
        self._folder, self.offered, self._owned = folder, offered, owned
        self._regions: dict[tuple[str, str], _Region] = {}
        self._opened = WeakSet[Opened]()

    def register(self, tenant: str, name: str, key: str, offset: int, size: int) -> None:
        """Open a region; raises BadRequest, NotFound or Refused."""
        if not self.offered:
            raise BadRequest("this server offers no shared memory (shared_memory = true in its file)")
        if (tenant, name) in self._regions:
            raise BadRequest(
                f"shared memory region '{name[:100]}' is registered already; unregister it first"
            )
        self._check_number(tenant)
        if not KEY.fullmatch(key):
            raise BadRequest(f"shared memory key {key!r:.100} is no name of a shared memory object")
        if self._owned and not key.lstrip("/").startswith(tuple(tenant + sign for sign in OWNED)):
            raise BadRequest(
                f"shared memory key {key!r:.100} is not tenant '{tenant}'s: call the object '/{tenant}:NAME' or "
                f"'/{tenant}@NAME' (any name will do where anonymous = true)"
            )
        self._regions[tenant, name] = self._open(tenant, key, offset, size)

    def unregister(self, tenant: str, name: str) -> None:
        """Forget a region; an empty name means all of the tenant's. Unknown names are no error."""
        for owner, region in list(self._regions):
            if owner == tenant and name in ("", region):
                del self._regions[owner, region]

    def keep(self, tenants: Container[str]) -> None:
        """Forget all regions of tenants that are not among these."""
        for owner in {owner for owner, _ in self._regions if owner not in tenants}:
            self.unregister(owner, "")

    def status(self, tenant: str, name: str = "") -> list[Placement]:
        """The tenant's regions, or one of them; raises NotFound."""
        found: list[Placement] = [
            {"name": region, "key": r.key, "offset": r.offset, "byte_size": r.size}
            for (owner, region), r in self._regions.items()
            if owner == tenant and name in ("", region)
        ]
        if name and not found:
            raise NotFound(f"no shared memory region '{name[:100]}' is registered")
        return found

    def tensor(self, tenant: str, tensor: InputTensor) -> RegionTensor | Strings:
        """The tensor that lies in a region; strings are read at once. Raises BadRequest."""
        assert isinstance(tensor.data, SharedRegion)
        if tensor.datatype == BYTES:
            return self._strings(tenant, tensor.name, tensor.shape, tensor.data)
        need = nbytes(tensor.datatype, tensor.shape)
        if tensor.data.size < need:
            raise BadRequest(f"tensor '{tensor.name}': {tensor.data.size} bytes named, {need} needed")
        region, start = self._find(tenant, tensor.data.region, tensor.data.offset, tensor.data.size)
        dtype = DATATYPES[tensor.datatype]
        return RegionTensor(tensor.data.region[:100], dtype, tensor.shape, region.opened, start)

    def _strings(self, tenant: str, name: str, shape: tuple[int, ...], data: SharedRegion) -> Strings:
        if data.size > MAX_TEXT_BYTES:
            raise BadRequest(
                f"tensor '{name}': {data.size} bytes of text; at most {MAX_TEXT_BYTES} are taken"
            )
        region, start = self._find(tenant, data.region, data.offset, data.size)
        whole = np.empty(data.size, np.uint8)
        dtype = whole.dtype
        RegionTensor(data.region[:100], dtype, whole.shape, region.opened, start).read_into(whole)
        return raw_strings(name, shape, whole.data)

    def check(self, tenant: str, request: InferRequest) -> None:
        """That there is the room for outputs that the client names; raises BadRequest."""
        for wanted in request.outputs:
            if wanted.region is not None:
                self._find(tenant, wanted.region.region, wanted.region.offset, wanted.region.size)

    def place(self, tenant: str, request: InferRequest, outputs: Mapping[str, Value]) -> Placing:
        """What is to be written where the client wants it. Raises BadRequest."""
        where, writes = {}, []
        for wanted in request.outputs:
            if wanted.region is None:
                continue
            array = contiguous(outputs[wanted.name])
            if wanted.region.size < array.nbytes:
                raise BadRequest(
                    f"output '{wanted.name}': {wanted.region.size} bytes of room, {array.nbytes} needed"
                )
            region, start = self._find(tenant, wanted.region.region, wanted.region.offset, array.nbytes)
            writes.append(_Write(wanted.region.region, region.opened, raw_bytes(array), start))
            where[wanted.name] = wanted.region
        return Placing(where, tuple(writes))

    def _check_number(self, tenant: str) -> None:
        """As with memory (``limits``), none may have more than are left for the others. Raises Refused."""
        free = MAX_REGIONS - len(self._opened)
        own = sum(opened.tenant == tenant for opened in self._opened)
        if own >= free:
            raise Refused(
                f"tenant '{tenant}' has {own} shared memory regions; there are {MAX_REGIONS} for all, and none may "
                "have more than are left for the others"
            )

    def _open(self, tenant: str, key: str, offset: int, size: int) -> _Region:
        try:  # of one with a lease, or of a pipe, nobody waits for the other side
            descriptor = os.open(
                f"{self._folder}/{key.lstrip('/')}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            )
        except OSError as error:
            raise BadRequest(f"shared memory '{key}' cannot be opened: {error.strerror}") from None
        opened = Opened(descriptor, tenant)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid():
            raise BadRequest(f"shared memory '{key}' does not belong to the server's user")
        if size <= 0 or offset < 0 or offset + size > facts.st_size:
            raise BadRequest(
                f"shared memory '{key}' holds {facts.st_size} bytes; asked for: {size} from {offset}"
            )
        self._opened.add(opened)
        return _Region(key, offset, size, opened)

    def _find(self, tenant: str, name: str, offset: int, size: int) -> tuple[_Region, int]:
        """A region, and where in its object the bytes start."""
        region = self._regions.get((tenant, name))
        if region is None:
            raise BadRequest(f"no shared memory region '{name[:100]}' is registered")
        if offset + size > region.size:
            held = f"shared memory region '{name[:100]}' holds {region.size} bytes"
            raise BadRequest(f"{held}; asked for: {size} from {offset}")
        return region, region.offset + offset
