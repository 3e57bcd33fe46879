"""The TOML file beside a network of a folder: what a ``[[network]]`` says of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eunomia.serving.protocol.reshape import Reshape


@dataclass(frozen=True)
class Beside:
    """``shapes``: of the trial. ``labels``: a file by output.

    ``empty``: inputs may be so behind the first axis; None = a trial decides. ``rows_apart``: each row is answered as
    if it were alone; None = a proof decides.
    ``newest``: so many versions are served, ``versions``: these; None = the server's ``versions`` of the newest.
    """

    shapes: Mapping[str, list[int]] = field(default_factory=dict)
    empty: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    newest: int | None = None
    versions: tuple[str, ...] | None = None
    dims: bool = False  # of config.pbtxt: they are the shapes
    formats: Mapping[str, str] = field(default_factory=dict)  # of inputs, as Triton names them
    reshapes: Mapping[str, Reshape] = field(
        default_factory=dict
    )  # of tensors, as clients see them and as they are
    types: Mapping[str, str] = field(default_factory=dict)  # of tensors, as config.pbtxt has them
    most_rows: int = 0  # of a request, as clients shall hear it; 0 = nobody says
    rows_apart: bool | None = None

    def serves(self, there: Sequence[str], most: int) -> tuple[Sequence[str], str]:
        """Of versions, the newest first, those to be served, and why others are not; ``most``: unless it says more."""
        if self.versions is not None:
            return [version for version in there if version in self.versions], "version_policy names others"
        count, where = (self.newest, "version_policy") if self.newest else (most, "versions")
        return there[:count], f"the newest {count} are served ({where})"


Reader = Callable[[Path], Beside]  # raises ConfigError


def nothing(path: Path) -> Beside:
    """Of a server that reads no such files."""
    return Beside()


def file_beside(folder: Path, network: Path) -> Path:
    """``NAME.toml`` beside ``NAME.onnx``, ``NAME/config.toml`` for all versions in ``NAME``."""
    parts = network.relative_to(folder).parts
    return network.with_suffix(".toml") if len(parts) == 1 else folder / parts[0] / "config.toml"


def read_beside(read: Reader, path: Path | None) -> Beside:
    """What the file says now; nothing where there is none. Raises ConfigError."""
    return read(path) if path is not None and path.is_file() else Beside()
