"""Which machine code of the event loops lies on disk."""

from __future__ import annotations

from pathlib import Path

from eunomia.inference.kernel.jit import source_stamp
from eunomia.inference.kernel.loop import make_run
from eunomia.inference.kernel.machine_code import SUM_BYTES, MachineCode


class _Loops(MachineCode):
    """The folder of the event loops; their files differ by kind, and say first of which sources they are."""

    def found(self) -> tuple[Path, int]:
        """The folder, and how many files of these sources are in it."""
        folder = Path(self.cache_path)
        base = self._impl.filename_base.partition("-")[0]
        heads = [path.read_bytes()[:SUM_BYTES] for path in folder.glob(f"{base}.*.nbc")]
        return folder, heads.count(self._stamp)


def kept_loops() -> tuple[Path, int]:
    """Where the event loops are kept, and how many of these sources there are. Raises RuntimeError, ValueError."""
    return _Loops(make_run(_no, _zero, _zero, _no), "any", source_stamp("inference/kernel")).found()


def _no() -> None:
    """In place of what the loops differ in."""


def _zero() -> int:
    """The same, where a status is expected."""
    return 0
