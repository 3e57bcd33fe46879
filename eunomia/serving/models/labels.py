"""Label files: the names of an output's classes, one a line, as the ``label_filename`` of Triton's repositories.

A file may have fewer lines than the output has classes: the others have no label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from eunomia.core.errors import ConfigError
from eunomia.serving.protocol.ranking import MOST_VALUES

MOST_BYTES = 8 * 1024**2  # of a file
LONGEST = 1000  # letters of a label
Labels = Mapping[str, tuple[str, ...]]  # by output; a label at the place of its class


def read_labels(files: Mapping[str, str]) -> Labels:
    """What the files of outputs say, of as many classes as are ranked; raises ConfigError."""
    return {
        output: _read(f"labels of output '{output}': '{file}'", Path(file)) for output, file in files.items()
    }


def must_lie_in(files: Mapping[str, str], folders: Iterable[Path]) -> None:
    """That no name or link leads elsewhere: who may ask for classes would read there. Raises ConfigError."""
    homes = [folder.resolve() for folder in folders]
    for output, file in files.items():
        place = Path(file).resolve()
        if not any(place.is_relative_to(home) for home in homes):
            raise ConfigError(
                f"labels of output '{output}': '{file}' leads out of the folder of networks; put the file itself there"
            )


def check_labels(labels: Labels, outputs: list[str]) -> None:
    """That only outputs have them which the network has; raises ConfigError."""
    for output in labels:
        if output not in outputs:
            raise ConfigError(f"labels names '{output}', which is no output: it has {', '.join(outputs)}")


def _read(what: str, path: Path) -> tuple[str, ...]:
    try:
        if not path.is_file():
            raise ConfigError(f"{what} is no file; give the path of a text file with one label a line")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(f"{what} has more than {MOST_BYTES} bytes; at most so many are read")
        lines = content.decode("utf-8-sig").split("\n", MOST_VALUES)[:MOST_VALUES]
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{what} is no UTF-8 in line {line}; write it anew in UTF-8") from None
    found = tuple(line.removesuffix("\r") for line in lines)
    for number, label in enumerate(found, 1):
        if len(label) > LONGEST:
            raise ConfigError(
                f"{what} has {len(label)} letters in line {number}; a label has at most {LONGEST}"
            )
    return found
