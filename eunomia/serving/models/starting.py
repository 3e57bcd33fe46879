"""How far a server has come that loads its networks before it serves."""

from __future__ import annotations

from eunomia.serving.models.repository import Repository


class Starting:
    """Counts networks to be loaded: those of the server's file, those remembered, and with ``everything`` all."""

    def __init__(self, networks: Repository, *, everything: bool) -> None:
        listed = {entry.name for entry in networks.entries() if everything or not entry.found}
        self._networks = networks
        self._wanted = listed | {name for name in networks.remembered if networks.has(name)}

    def how_far(self) -> str:
        """Why nobody is served yet."""
        done = len(self._wanted & self._networks.tried)
        return f"networks are loading: {done} of {len(self._wanted)}" if self._wanted else "the server starts"
