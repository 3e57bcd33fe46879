"""The live curve as TensorBoard event files; needs the package tensorboard, no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError


class Board:
    """Appends one point per iteration to an event file in ``folder``. Raises ConfigError without the package."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ConfigError("a TensorBoard curve needs the package: pip install 'eunomia[learn]'") from None
        self._event, self._summary = Event, Summary
        self._writer: Any = EventFileWriter(str(folder))

    def add(self, stage: str, entry: dict[str, float]) -> None:
        """The values of one iteration, under ``stage/name``."""
        values = [self._summary.Value(tag=f"{stage}/{name}", simple_value=value)
                  for name, value in entry.items() if name != "iteration"]  # fmt: skip
        self._writer.add_event(self._event(summary=self._summary(value=values), step=int(entry["iteration"])))
        self._writer.flush()
