"""Large outputs are copied beside the event loop, and whatever happens each request gets one answer."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eunomia.serving.devices.copying import Copying, Part
from eunomia.serving.protocol.errors import Refused, Unavailable
from tests.patience import PATIENCE_S, until_async


class View:
    """A tensor whose copy waits for an event, or fails."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.go, self.error = threading.Event(), error

    def copy(self) -> np.ndarray:
        assert self.go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return np.ones(3)


def part(view: View) -> Part:
    return Part(SimpleNamespace(), True, {"y": view}, 3)  # type: ignore[arg-type,dict-item]


@pytest.mark.parametrize("error", [None, MemoryError(), RuntimeError("a fault")])
def test_each_part_is_handed_out_once_and_then_the_memory_is_free(error: Exception | None) -> None:
    async def run() -> None:
        copying, views = Copying(), [View(error), View()]
        handed: list[tuple[Part, Any]] = []
        ended = asyncio.Event()
        parts = [part(view) for view in views]
        copying.copy(parts, lambda p, c: handed.append((p, c)), lambda p: None, ended.set)
        assert copying.under_way == 2 and not handed
        views[0].go.set()
        await until_async(lambda: handed)
        assert copying.under_way == 1 and not ended.is_set(), "the other one's memory is in use"
        views[1].go.set()
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        assert [p for p, _ in handed] == parts and copying.under_way == 0
        assert isinstance(handed[0][1], Unavailable if error else dict)
        assert handed[1][1]["y"].tolist() == [1, 1, 1]
        copying.close()

    asyncio.run(run())


def test_what_has_no_room_is_not_copied() -> None:
    def none(_: Part) -> None:
        raise Refused("no room")

    async def run() -> None:
        copying, handed, ended = Copying(), [], []
        copying.copy([part(View())], lambda p, c: handed.append(c), none, lambda: ended.append(1))
        assert isinstance(handed[0], Refused) and ended == [1] and copying.under_way == 0
        copying.close()

    asyncio.run(run())
