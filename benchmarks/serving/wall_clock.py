"""A wall clock that jumps for one process tree; monotonic clocks stay as they are."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")  # what is preloaded


@dataclass(frozen=True)
class WallClockJumps:
    """A preloaded library that shifts the wall clock of one process tree; monotonic clocks stay as they are."""

    folder: Path

    @classmethod
    def build(cls) -> WallClockJumps | None:
        """Compile it; None without a C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return None
        folder = Path(tempfile.mkdtemp(prefix="eunomia-clock-"))
        (folder / "shift").write_bytes(struct.pack("d", 0.0))
        flags = ["-O2", "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(SOURCE), "-ldl"]
        subprocess.run([compiler, *flags], check=True, capture_output=True)
        return cls(folder)

    @property
    def environment(self) -> Mapping[str, str]:
        """For the process whose clock shall jump."""
        return {"LD_PRELOAD": str(self.folder / "clock.so"), "EUNOMIA_WALL_SHIFT": str(self.folder / "shift")}

    def jump(self, seconds: float) -> None:
        """So far from the true time, from now on."""
        with (self.folder / "shift").open("r+b") as file, mmap.mmap(file.fileno(), 8) as place:
            place[:] = struct.pack("d", seconds)
