"""Text files line by line, bounded, with one sentence for what is no text."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import is_gzip

LONGEST = 1 << 16  # bytes of a line


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of each line that is not blank, plain or gzip. Raises TraceError."""
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            number = 0
            while content := file.readline(LONGEST + 1):
                number += 1
                if len(content) > LONGEST:
                    raise TraceError(
                        f"this line is longer than {LONGEST} bytes; check that the file is a log",
                        path,
                        number,
                    )
                try:
                    text = content.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise TraceError(
                        f"the line is not UTF-8 text ({error.reason}); convert the file, for example with iconv",
                        path,
                        number,
                    ) from None
                if text.strip():
                    yield number, text
    except (EOFError, zlib.error):
        raise TraceError("the compressed file is damaged or ends too early; fetch it again", path) from None
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None


def first_line(path: Path) -> str:
    """The first line that is not blank; "" where there is none, or no text. Raises TraceError for no file."""
    try:
        return next((text for _, text in text_lines(path)), "")
    except TraceError:
        if not path.is_file():
            raise
        return ""
