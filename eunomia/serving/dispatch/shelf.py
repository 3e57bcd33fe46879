"""The policy that serves, and those that served before it: put in and taken back while the server runs.

A policy comes as a registered name, or as the files of a card (numbers and their card, or rules): never as code. Its
files are kept by their SHA-256, the order of service in ``served.json``; with a folder of its own, a restarted server
goes on with the policy that was put in last.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from eunomia.contract.guard import Guarded
from eunomia.contract.view import Policy
from eunomia.core.atomic import check_writable, write_bytes, write_text
from eunomia.core.data import Data
from eunomia.core.errors import EunomiaError, OutputError
from eunomia.inference.policies import load_policy
from eunomia.serving.dispatch.warm import warm_up
from eunomia.serving.protocol.errors import BadRequest, ServingError

log = logging.getLogger("eunomia.serving")
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(json|safetensors|toml)")
MAX_FILES, MAX_BYTES = 4, 16 * 1024**2
DEPTH = 20  # policies on the shelf
SERVED = "served.json"
Files = Mapping[str, bytes]


class Conflict(ServingError):
    """Another policy serves than the one that was to be replaced."""

    http, grpc, reason = 409, "ABORTED", "conflict"


@dataclass(frozen=True)
class Placed:
    """One policy in service. ``source``: a registered name, or the path of a card below the folder of policies."""

    label: str
    source: str
    sha256: str = ""
    since_s: float = 0.0  # wall time
    by: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)


class PolicyShelf:
    """A stack of policies over one guard; its top serves. The lowest is that of the server's own file."""

    def __init__(self, guard: Guarded, configured: Placed, folder: Path, *, remember: bool) -> None:
        self._guard, self.folder, self._remember = guard, folder, remember
        self._stack: list[tuple[Placed, Policy]] = [(configured, guard.policy)]
        self.on_change: Callable[[str], None] = lambda label: None

    @property
    def now(self) -> Placed:
        """What serves."""
        return self._stack[-1][0]

    @property
    def earlier(self) -> list[Placed]:
        """What can be taken back to, the latest first."""
        return [placed for placed, _ in self._stack[-2::-1]]

    def files(self) -> dict[str, bytes]:
        """Of the policy that serves; empty when it is a name."""
        if not self.now.sha256:
            return {}
        return {path.name: path.read_bytes() for path in sorted((self.folder / self.now.sha256).iterdir())}

    def source_of(self, name: str, files: Files) -> tuple[str, str]:
        """What it is read from, and the SHA-256 of its files, which are kept; empty where it is a name."""
        digest = self._keep(files) if files else ""
        return (f"{digest}/{name}" if digest else name), digest

    def prepare(self, name: str, files: Files) -> tuple[Placed, Policy]:
        """A policy that is ready to serve, files kept, compiled. May take seconds: not for the event loop.

        ``name``: a registered policy, or that of ``files`` which is the card. Raises BadRequest.
        """
        source, digest = self.source_of(name, files)
        try:
            policy = load_source(self.folder, source, bool(files))
            warm_up(policy)
        except EunomiaError as error:
            raise BadRequest(
                f"the policy cannot be used: {str(error).replace(str(self.folder), '')}"
            ) from None
        return Placed(Path(name).stem if files else name, source, digest), policy

    def place(self, placed: Placed, policy: Policy) -> None:
        """It serves from the next decision on; requests in the queue stay there.

        Raises OutputError when it cannot be written down; the policy before then goes on serving.
        """
        lowest, *others = [*self._stack, (placed, policy)]
        self._change([lowest, *others[1 - DEPTH :]])

    def take_back(self) -> Placed:
        """The policy before this one serves again; returns the one that was taken.

        Raises BadRequest without one, and OutputError when that cannot be written down: nothing changes then.
        """
        if len(self._stack) < 2:
            raise BadRequest(f"no policy served before '{self.now.label}': there is nothing to go back to")
        taken = self.now
        self._change(self._stack[:-1])
        return taken

    def resume(self) -> None:
        """After a start: what served before, if it can still be read. Raises OutputError for an unusable folder."""
        if self._remember:
            try:
                check_writable(self.folder / SERVED)
            except OutputError as error:
                raise OutputError(f"policy_dir cannot be used: {error}") from None
        for entry in self._remembered():
            try:
                placed = Placed(**entry)
                self._stack.append((placed, load_source(self.folder, placed.source, bool(placed.sha256))))
            except (EunomiaError, OSError, TypeError) as error:
                log.error("a policy that served before cannot be used: %s", error)
        if len(self._stack) > 1:
            warm_up(self._stack[-1][1])
            self._serve()

    def _change(self, stack: list[tuple[Placed, Policy]]) -> None:
        """Written down first: what a restart would not know of does not serve."""
        if self._remember:
            served = [asdict(p) for p, _ in stack[1:]]
            write_text(self.folder / SERVED, json.dumps({"format": 1, "served": served}, indent=1) + "\n")
        self._stack = stack
        self._serve()

    def _serve(self) -> None:
        placed, policy = self._stack[-1]
        self._guard.replace(policy)
        self.on_change(placed.label)
        whose = f"put in by '{placed.by}'" if placed.by else "that of the server's file"
        log.warning("policy '%s' serves (%s)", placed.label, whose)

    def _remembered(self) -> list[Data]:
        path = self.folder / SERVED
        if not self._remember or not path.exists():
            return []
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return list(content["served"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("%s cannot be read: %s; the policy of the server's file serves", path, error)
            return []

    def _keep(self, files: Files) -> str:
        digest = hashlib.sha256()
        for name in sorted(files):
            digest.update(f"{name} {len(files[name])} ".encode() + files[name])
        place = self.folder / digest.hexdigest()
        for name, content in files.items():
            write_bytes(place / name, content)
        return digest.hexdigest()


def load_source(folder: Path, source: str, card: bool) -> Policy:
    """A registered policy, or the ``card`` of this path below the folder; raises EunomiaError."""
    if not card:
        return load_policy(source)
    path = folder / source
    if path.suffix == ".toml":
        from eunomia.learning.distill.file import load_rules
        from eunomia.learning.distill.policy import RulePolicy

        return RulePolicy(load_rules(path))
    from eunomia.learning.load import load_policy as load_card

    learned: Policy = load_card(path)
    return learned


def check_files(name: str, files: Files) -> None:
    """Names that stay inside their folder, and sizes within bounds; raises BadRequest."""
    if files and name not in files:
        raise BadRequest(f"the checkpoint {name!r:.100} is not among the files")
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_BYTES:
        raise BadRequest(f"a policy has at most {MAX_FILES} files and {MAX_BYTES} bytes")
    for file in files:
        if not FILE.fullmatch(file):
            raise BadRequest(f"file {file!r:.100}: a policy has .json, .safetensors and .toml files")


def stamped(placed: Placed, by: str, evidence: Mapping[str, object]) -> Placed:
    """With who put it in, when, and why."""
    return Placed(placed.label, placed.source, placed.sha256, time.time(), by, dict(evidence))
