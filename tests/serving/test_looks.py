"""Who asks for the index of a large folder does not hold the event loop, and sees what is there now."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from eunomia.serving.models import repository
from eunomia.serving.models.folder import Found, look_through
from eunomia.serving.models.looks import REST, Looks
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD, ask, running

grpc = pytest.importorskip("tritonclient.grpc")


def test_all_who_ask_meanwhile_wait_for_one_look() -> None:
    async def main() -> None:
        began, go, seen = threading.Event(), threading.Event(), list[int]()

        def look() -> int:
            began.set()
            assert go.wait(PATIENCE_S)
            return len(seen)

        looks = Looks(look, seen.append)
        first = asyncio.create_task(looks.fresh())
        assert await asyncio.to_thread(began.wait, PATIENCE_S)
        others = [asyncio.create_task(looks.fresh()) for _ in range(50)]
        await asyncio.sleep(0)
        others[0].cancel()  # of one that leaves: the others wait on
        go.set()
        await asyncio.gather(first, *others[1:])
        assert seen == [0, 1]

    asyncio.run(main())


def test_looks_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop, took_s, at_s = asyncio.get_running_loop(), 0.01, list[float]()

        def look() -> None:
            at_s.append(loop.time())
            threading.Event().wait(took_s)

        looks = Looks(look, lambda _: None)
        for _ in range(4):
            await looks.fresh()
        assert min(b - a for a, b in zip(at_s, at_s[1:], strict=False)) >= REST * took_s

    asyncio.run(main())


def test_a_look_that_fails_is_told_and_the_next_is_carried_out() -> None:
    async def main() -> None:
        answers = iter([OSError("gone"), None])

        def look() -> None:
            if (error := next(answers)) is not None:
                raise error

        looks = Looks(look, lambda _: None)
        with pytest.raises(OSError, match="gone"):
            await looks.fresh()
        await looks.fresh()

    asyncio.run(main())


def test_the_index_is_made_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, 8 connections that asked for it left another tenant 23 to 34 % of its deadlines."""
    threads = list[threading.Thread]()

    def noted(folder: Path) -> Found:
        threads.append(threading.current_thread())
        return look_through(folder)

    monkeypatch.setattr(repository, "look_through", noted)
    with running(tmp_path) as server, grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        threads.clear()
        (tmp_path / "new.onnx").write_bytes(b"")
        found = ask(server, "POST", "/v2/repository/index", GOLD)[1]
        assert [entry["name"] for entry in found] == ["new", "small"]
        (tmp_path / "new.onnx").unlink()
        index = client.get_model_repository_index(headers={"authorization": f"Bearer {GOLD}"})
        assert [entry.name for entry in index.models] == ["small"]
        assert len(threads) == 2 and all(thread.name.startswith("asyncio_") for thread in threads)
