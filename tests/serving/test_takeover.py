"""A new process takes over: stock clients lose no request, and what was acknowledged is in the ledger."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import OutputError, RecordError
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.retired import Retired
from eunomia.serving.server import Server
from eunomia.serving.takeover import line, succession
from eunomia.serving.takeover.line import Estate, Predecessor, address_of
from eunomia.serving.takeover.sockets import why_taken
from tests import children
from tests.patience import PATIENCE_S, until, until_async
from tests.serving.live import GOLD, running
from tests.serving.process import IMAGE, Process, ports, process, write_server


class Traffic:
    """Stock clients that ask again and again, each over the connections that it keeps."""

    def __init__(self, server: Process) -> None:
        self._where = {"http": server.url.removeprefix("http://"), "grpc": server.grpc}
        self.answered: dict[str, int] = dict.fromkeys(self._where, 0)
        self.failed: list[str] = []
        self._stop = threading.Event()

    @contextmanager
    def going(self) -> Iterator[Traffic]:
        crowd = [threading.Thread(target=self._work, args=(name,)) for name in self._where for _ in range(2)]
        for one in crowd:
            one.start()
        try:
            yield self
        finally:
            self._stop.set()
            for one in crowd:
                one.join(PATIENCE_S)

    def more(self, count: int = 20) -> None:
        """Wait until each protocol has had so many more answers, or something failed."""
        before = dict(self.answered)
        until(lambda: bool(self.failed) or all(self.answered[n] >= before[n] + count for n in before))

    def _work(self, protocol: str) -> None:
        module: Any = __import__(f"tritonclient.{protocol}", fromlist=["x"])
        with module.InferenceServerClient(self._where[protocol]) as client:
            picture = module.InferInput("image", list(IMAGE.shape), "FP32")
            picture.set_data_from_numpy(IMAGE)
            while not self._stop.is_set():
                try:
                    got = client.infer("small", [picture], headers={"authorization": f"Bearer {GOLD}"})
                    assert got.as_numpy("logits").shape == (1, 10)
                    self.answered[protocol] += 1
                except Exception as error:
                    self.failed.append(f"{protocol}: {error!r}")
                    return


def counted(folder: Path) -> int:
    """Answers that the ledger knows of."""
    ledger = Ledger(folder)
    try:
        return sum(
            n
            for use in ledger.usage.values()
            for outcome, n in use.outcomes.items()
            if outcome in ("hit", "late")
        )
    finally:
        ledger.close()


def test_no_request_is_lost_while_one_process_takes_over_from_another(tmp_path: Path) -> None:
    pytest.importorskip("tritonclient.http")
    file = write_server(tmp_path, ledger_dir=str(tmp_path / "ledger"), **ports())
    with ExitStack() as servers:
        old = servers.enter_context(process(file, tmp_path / "errors"))
        traffic = Traffic(old)
        with traffic.going():
            traffic.more()
            new = servers.enter_context(process(file, tmp_path / "errors", more=["--takeover"]))
            assert (new.url, new.grpc) == (old.url, old.grpc)
            traffic.more()
            assert old.process.wait(PATIENCE_S) == 0, "it has left by itself"
            traffic.more()
            with pytest.raises(RecordError, match="belongs to another server"):
                Ledger(tmp_path / "ledger")
        assert traffic.failed == []
    assert counted(tmp_path / "ledger") == sum(traffic.answered.values())


def test_a_kill_of_either_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    pytest.importorskip("tritonclient.http")
    file = write_server(tmp_path, ledger_dir=str(tmp_path / "ledger"), **ports())
    with ExitStack() as servers:
        old = servers.enter_context(process(file))
        traffic = Traffic(old)
        with traffic.going():
            command = children.python("-m", "eunomia", "serve", file, "--json", "--takeover")
            with children.started(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as early:
                moment = sum(traffic.answered.values()) + random.Random(os.getpid()).randint(200, 2000)
                until(lambda: traffic.failed or sum(traffic.answered.values()) >= moment)
                early.kill()  # while it loads, or once it serves
                early.wait(PATIENCE_S)
            if old.process.poll() is None and not traffic.failed:
                traffic.more()
            new = servers.enter_context(process(file, more=["--takeover"]))
            old.process.kill()
            old.process.wait(PATIENCE_S)
            assert [new.infer() for _ in range(5)] == [200] * 5
    assert counted(tmp_path / "ledger") >= sum(traffic.answered.values()) + 5


def test_a_ledger_that_cannot_be_read_ends_no_succession(caplog: pytest.LogCaptureFixture) -> None:
    """As it was, the server handed over to nobody any more."""

    def keep() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    server = SimpleNamespace(service=SimpleNamespace(ledger=SimpleNamespace(keep=keep)))
    succession.Succession(server, "127.0.0.1")._alone()  # type: ignore[arg-type]
    assert "does not count yet: [Errno 24] Too many open files" in caplog.text


def test_nobody_to_take_over_from_is_no_error_and_who_does_not_hand_over_is_one_sentence() -> None:
    address = address_of("127.0.0.1", ports()["http_port"])
    assert asyncio.run(Predecessor.find(address)) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen(1)

        async def refused() -> None:
            told = asyncio.create_task(Predecessor.find(address))
            peer = (await asyncio.to_thread(server.accept))[0]
            peer.send(b'{"format": 99}')
            with pytest.raises(
                OutputError, match=r"the server at 127.0.0.1:\d+ does not hand over .*: stop it, and"
            ):
                await told
            peer.close()

        asyncio.run(refused())


@pytest.mark.parametrize("fault", ["silence", "estate", "accept", "stay"])
def test_a_fault_or_a_silent_peer_does_not_end_the_wait_for_a_successor(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stays open for whoever says nothing, and who comes next is served."""
    monkeypatch.setattr(line, "SERVING_S", 0.05, raising=False)
    monkeypatch.setattr(line, "AGAIN_S", 0.0, raising=False)
    address, told = address_of("127.0.0.1", ports()["http_port"]), [fault]

    def fail_once(name: str) -> None:
        if name in told and name != "silence":
            told.remove(name)
            raise OSError(errno.EMFILE, "Too many open files")

    def estate() -> Estate:
        fail_once("estate")
        return Estate([], [], None, ["small"])

    async def leave() -> None:
        told.append("left")

    def stay() -> None:
        told.append("stayed")
        fail_once("stay")

    async def meet() -> None:
        loop = asyncio.get_running_loop()
        accept = loop.sock_accept

        async def sock_accept(listening: socket.socket) -> Any:
            fail_once("accept")
            return await accept(listening)

        monkeypatch.setattr(loop, "sock_accept", sock_accept)
        old = line.Successors(address, estate, leave, stay, lambda: None)
        try:
            if fault == "estate":
                with pytest.raises(OutputError, match="does not hand over"):
                    await Predecessor.find(address)
                await until_async(lambda: "stayed" in told)
            elif fault != "accept":
                first = await Predecessor.find(address)
                assert first is not None
                if fault == "silence":
                    await until_async(lambda: "stayed" in told)
                    with pytest.raises(OutputError, match="has waited"):
                        await first.leaves()
                first.close()
                await until_async(lambda: "stayed" in told)
            monkeypatch.setattr(line, "SERVING_S", PATIENCE_S)
            second = await Predecessor.find(address)
            assert second is not None and second.estate.models == ["small"]
            await second.leaves()
            assert told[-1] == "left"
            second.close()
        finally:
            old.close()

    asyncio.run(meet())


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.sampled_from(["old", "new", "compact", "heir", "kill old", "kill new", "again"]), max_size=25
    )
)
def test_ledgers_that_are_handed_over_count_every_line_once(steps: list[str]) -> None:
    """Against a count by hand: whoever writes, sums up, takes over, or is killed, in any order."""
    with tempfile.TemporaryDirectory() as place:
        folder, written = Path(place), 0
        servers: list[Ledger | None] = [Ledger(folder), None]  # the one that serves, and its heir
        for step in steps:
            old, heir = servers
            assert old is not None
            if step == "heir" and heir is None:
                old.share()
                servers[1] = Ledger(folder, lock=os.dup(old.lock))
            elif step in ("old", "new") and (who := servers[step == "new"]) is not None:
                who.record(RETIRED, 0.0)
                written += 1
            elif step == "compact":
                for one in (old, heir):
                    if one is not None:
                        one.compact()
            elif step == "kill new" and heir is not None:
                drop(heir)
                old.keep()
                servers[1] = None
                assert sums(old) == written
            elif step == "kill old" and heir is not None:
                drop(old)
                heir.keep()
                servers = [heir, None]
                assert sums(heir) == written
            elif step == "again":
                for one in (old, heir):
                    if one is not None:
                        drop(one)
                servers = [Ledger(folder), None]
                assert sums(servers[0]) == written
        for one in servers:
            if one is not None:
                drop(one)
        last = Ledger(folder)
        assert sums(last) == written
        last.close()


def test_a_lock_of_another_folder_does_not_stand_for_ones_own(tmp_path: Path) -> None:
    """Neither two that write one journal, nor a folder that stays locked by somebody who does not write there."""
    old = Ledger(tmp_path / "a")
    old.share()
    heir = Ledger(tmp_path / "b", lock=os.dup(old.lock))
    with pytest.raises(RecordError, match="belongs to another server"):
        Ledger(tmp_path / "b")
    heir.record(RETIRED, 0.0)
    heir.compact()
    assert (tmp_path / "b" / "snapshot.json").exists(), "it shares its own folder with nobody"
    heir.keep()
    assert sums(heir) == 1
    old.close()
    Ledger(tmp_path / "a").close()
    heir.close()


def test_a_link_to_the_folder_is_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    old = Ledger(tmp_path / "a")
    old.share()
    heir = Ledger(tmp_path / "link", lock=os.dup(old.lock))
    old.record(RETIRED, 0.0)
    old.close()
    heir.keep()
    assert sums(heir) == 1
    heir.close()


class Leaving:
    """A server without requests. ``looks``: how many are connected, look by look; the last for ever."""

    grpc_port, listening, listening_rpc, looked = None, (), (), 0

    def __init__(self, looks: list[int], http_port: int = 0) -> None:
        self.http_port, self._looks = http_port, looks
        self.pool = SimpleNamespace(busy=False, sparing=Mock())
        self.service = SimpleNamespace(ledger=None, repository=SimpleNamespace(entries=lambda ready_only: []))

    @property
    def connected(self) -> int:
        self.looked += 1
        return self._looks[min(self.looked, len(self._looks)) - 1]

    def stop_listening(self) -> None:
        """Nobody listens."""


def wait_of(server: Leaving, monkeypatch: pytest.MonkeyPatch, least_s: float | None = None) -> float:
    """How long it stays, by a clock that goes on by a tenth of a second with each pause."""
    passed = [0.0]

    async def pause(pause_s: float) -> None:
        passed[0] += pause_s

    monkeypatch.setattr(succession, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    monkeypatch.setattr(succession, "asyncio", SimpleNamespace(Event=asyncio.Event, sleep=pause))
    one: Any = server
    asyncio.run(succession.Succession(one, "127.0.0.1").last(82.0, *([] if least_s is None else [least_s])))
    return passed[0]


def test_nobody_is_trusted_only_after_the_time_of_a_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was accepted before, and is counted only once its handshake is over, is not cut."""
    assert 1.0 <= wait_of(Leaving([0]), monkeypatch) <= 3.0
    assert 10.0 <= wait_of(Leaving([0]), monkeypatch, 10.0) <= 11.0
    late = Leaving([1] * 100 + [0])
    assert wait_of(late, monkeypatch) > 10.0 and late.looked > 100
    assert 82.0 <= wait_of(Leaving([1]), monkeypatch) <= 83.0
    assert 82.0 <= wait_of(Leaving([1]), monkeypatch, 100.0) <= 83.0, "never longer than it may"


def test_who_leaves_does_not_wait_for_its_connections_once_its_heir_has_ended() -> None:
    """Nobody serves then, and nobody can begin to before it has left."""

    async def lose(server: Any) -> None:
        old = succession.Succession(server, "127.0.0.1")
        await old.begin()
        heir = await Predecessor.find(address_of("127.0.0.1", server.http_port))
        assert heir is not None
        await heir.leaves()
        await asyncio.wait_for(old.over.wait(), PATIENCE_S)
        server.pool.sparing.stop.assert_called_once_with()
        last = asyncio.create_task(old.last(1e9, 0.0))
        looked = server.looked
        await until_async(lambda: server.looked > looked)
        assert not last.done(), "the heir serves, and somebody is still connected"
        heir.close()
        await asyncio.wait_for(last, PATIENCE_S)
        old.close()

    with patch.object(succession, "EVERY_S", 0.001):
        asyncio.run(lose(Leaving([1], ports()["http_port"])))


@pytest.mark.parametrize(("tls", "least_s"), [(None, succession.HANDSHAKE_S), ((Path("c"), Path("k")), 7.0)])
def test_with_tls_a_handshake_has_the_time_of_a_header(tls: Any, least_s: float) -> None:
    stays: list[float] = []

    async def last(most_s: float, least_s: float) -> None:
        stays.extend((most_s, least_s))

    limits = SimpleNamespace(head_s=7.0, idle_s=60.0)
    server: Any = SimpleNamespace(
        options=SimpleNamespace(connections=limits, drain_s=5.0, tls=tls),
        succession=SimpleNamespace(last=last),
    )
    asyncio.run(Server.last(server))
    assert stays == [65.0, least_s]


RETIRED = Retired("gold", "small", "hit", 0.1, 0.0, 0.05, 1, 0, 1.0, 0.0, 0.0, "1")


def sums(ledger: Ledger | None) -> int:
    """All requests that it knows of."""
    assert ledger is not None
    return sum(n for use in ledger.usage.values() for n in use.outcomes.values())


def drop(ledger: Ledger) -> None:
    """As the kernel does it with a process that is killed."""
    os.close(ledger._file)
    os.close(ledger.lock)


def test_why_a_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        assert why_taken("127.0.0.1", one.getsockname()[1]).startswith(
            "Address already in use; another program"
        )
    assert not why_taken("127.0.0.1", 0)


@pytest.mark.parametrize("mine", [0, 1, None])
def test_a_port_of_grpc_that_is_not_kept_is_said(caplog: pytest.LogCaptureFixture, mine: int | None) -> None:
    """Its clients were refused from then on, and nobody read why."""
    with socket.create_server(("127.0.0.1", 0)) as before:
        port = before.getsockname()[1]
        handed = Estate((), [os.dup(before.fileno())], None, ()).rpc_at(mine)
        for one in handed:
            one.close()
    assert bool(handed) == (mine == 0)
    told = f"the server before serves gRPC at port {port}, and this one does not: its clients there are refused now"
    assert (told in caplog.text) == (mine != 0)


def test_a_takeover_from_another_spelling_of_the_host_says_what_it_looks_for(tmp_path: Path) -> None:
    """It was told to end the program that listens there: the very server that it was to take over from."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(
                OutputError,
                match=f"http_port = {port} .*found no server of this user that has this very host "
                "and http_port, or it is still starting",
            ),
            running(tmp_path, http_port=port, host="localhost", takeover=True),
        ):
            pass
        with pytest.raises(OutputError) as plain, running(tmp_path, http_port=port):
            pass
        assert "takeover" not in str(plain.value)
