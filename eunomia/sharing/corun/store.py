"""Blocks of a measurement on disk, written after each round, so that a stopped one goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.core.errors import ConfigError, RecordError
from eunomia.core.provenance import environment
from eunomia.sharing.corun.design import Block, Case, Design

NAME = "corun.json"


@dataclass
class Store:
    """``path``: a folder; None = nowhere. What is kept must be of the same clients, places and block length."""

    path: Path | None
    design: Design
    blocks: dict[str, list[Block]] = field(default_factory=dict)

    @property
    def about(self) -> dict[str, object]:
        """What blocks depend on."""
        return {"clients": list(self.design.clients), "block_s": self.design.block_s}

    def read(self) -> None:
        """Take in what an earlier run left. Raises ConfigError for another design, RecordError for a damaged file."""
        if self.path is None or not (file := self.path / NAME).exists():
            return
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            found = {key: [Block(**one) for one in rows] for key, rows in content["blocks"].items()}
            about = content["about"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"{file}: not a measurement of co-runs ({error}); choose another folder"
            ) from None
        if about != self.about:
            raise ConfigError(
                f"{self.path} holds co-runs of other clients or blocks; choose another folder (--out)"
            )
        self.blocks = found

    def add(self, case: Case, blocks: list[Block]) -> None:
        """Keep the blocks of a round, on disk at once."""
        self.blocks.setdefault(case.key, []).extend(blocks)
        if self.path is None:
            return
        rows = {key: [asdict(one) for one in many] for key, many in self.blocks.items()}
        content = {"about": self.about, "manifest": environment(), "blocks": rows}
        write_text(self.path / NAME, json.dumps(content, indent=1, default=str) + "\n")
