"""The ledger: nothing acknowledged is lost, whatever happens in between."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eunomia.core.errors import RecordError
from eunomia.serving.observe import ledger as module
from eunomia.serving.observe import snapshot
from eunomia.serving.observe.journal import lines_of, read_lines
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.retired import Retired
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.today import DAY_S, Today
from tests import children
from tests.patience import PATIENCE_S, pauses, until_async


def request(tenant: str = "gold", outcome: str = "hit", service_s: float = 0.01) -> Retired:
    return Retired(tenant, "m", outcome, 0.02, 0.005, service_s, 1, 0, 0.1)


def counts(folder: Path) -> dict[tuple[str, str], dict[str, int]]:
    ledger = Ledger(folder)
    found = {pair: dict(usage.outcomes) for pair, usage in ledger.usage.items()}
    ledger.close()
    return found


def test_sums_come_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, watts=50.0)
    for n in range(10):
        ledger.record(request(outcome="hit" if n % 3 else "late"), float(n))
    ledger.record(request("silver"), 11.0)
    ledger.close()
    again = Ledger(tmp_path, watts=50.0)
    gold = again.usage["gold", "m"]
    assert gold.outcomes == {"hit": 6, "late": 4} and gold.window[-1] == (9.0, 0.02, "late")
    assert gold.device_s == pytest.approx(0.1) and gold.energy_j == pytest.approx(5.0)
    assert again.usage["silver", "m"].outcomes == {"hit": 1}
    again.close()


def test_compaction_counts_everything_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 500)
    ledger = Ledger(tmp_path)
    for n in range(100):
        ledger.record(request(), float(n))
    ledger.close()
    assert len(list(tmp_path.glob("journal-*.log"))) == 1
    assert counts(tmp_path) == {("gold", "m"): {"hit": 100}}


@pytest.mark.parametrize("ended", [False, True])
def test_sums_are_written_between_requests_and_count_everything_once(
    ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, a journal of 8 MB held the event loop for 100 to 200 ms; it may end in the midst of it."""
    monkeypatch.setattr(module, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(snapshot, "AT_ONCE", 3)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)

    async def main() -> None:
        ledger = Ledger(tmp_path)
        for n in range(100):
            ledger.record(request(), float(n))
            await asyncio.sleep(0)
        assert ledger._summing is not None
        if not ended:
            await until_async(lambda: ledger._summing is None or ledger._summing.done())
            assert len(list(tmp_path.glob("journal-*.log"))) < 9
        ledger.keep()  # counts what another process wrote: nothing
        assert ledger.usage["gold", "m"].outcomes == {"hit": 100}
        ledger.close()

    asyncio.run(main())
    assert counts(tmp_path) == {("gold", "m"): {"hit": 100}}


@pytest.mark.parametrize("then", ["share", "close"])
def test_who_reads_next_waits_for_a_snapshot_that_is_being_written(
    then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, it could read the old one and find its journals gone: what they held counted no more."""
    under_way, goes_on, write = threading.Event(), threading.Event(), module.write_text

    def slow(path: Path, text: str) -> None:
        under_way.set()
        goes_on.wait(PATIENCE_S)
        write(path, text)

    ledger = Ledger(tmp_path)
    ledger.record(request(), 1.0)
    monkeypatch.setattr(module, "write_text", slow)
    with ThreadPoolExecutor(2) as threads:
        sums = threads.submit(ledger.compact)
        assert under_way.wait(PATIENCE_S)
        next_one = threads.submit(getattr(ledger, then))
        asyncio.run(pauses(5))
        assert not next_one.done()
        goes_on.set()
        for one in (sums, next_one):
            one.result(PATIENCE_S)
    before = (tmp_path / "snapshot.json").read_text()
    ledger._keep_sums(ledger._segment, ["{}"])
    assert (tmp_path / "snapshot.json").read_text() == before, "another process reads"


@pytest.mark.parametrize("where, what", [(Ledger, "_open_segment"), (module, "journals")])
def test_a_journal_that_cannot_start_anew_goes_on_and_is_said_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    what: str,
) -> None:
    """As it was, the log had a line for each request, or requests had no answers."""

    def fails(_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(module, "SEGMENT_BYTES", 100)
    ledger = Ledger(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(where, what, fails)
        for n in range(10):
            ledger.record(request(), float(n))
    assert len(caplog.records) == 1 and "goes on in its long journal" in caplog.text
    ledger.close()
    assert counts(tmp_path) == {("gold", "m"): {"hit": 10}}


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=3), st.text(max_size=3)),
        st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.sampled_from(["hit", "late"])), max_size=8),
        max_size=4,
    )
)
@example({})
def test_pieces_are_the_json_of_the_whole(
    windows: dict[tuple[str, str], list[tuple[float, float, str]]],
) -> None:
    usage = {pair: snapshot.Usage({"hit": 3}, 0.5, 7.0, deque(window)) for pair, window in windows.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "AT_ONCE", 3)
        written = snapshot.pieces(5, [7, {"gold": 1.5}], usage)
        first = next(written)
        for one in usage.values():
            one.window.append((0.0, 0.0, "since"))  # not in it
            one.outcomes["late"] = 1
        text = "".join([first, *written])
    whole = [[*pair, {"hit": 3}, 0.5, 7.0, [list(e) for e in window]] for pair, window in windows.items()]
    assert json.loads(text) == {"segment": 5, "today": [7, {"gold": 1.5}], "usage": whole}


def test_windows_are_copied_one_at_a_time_and_what_comes_meanwhile_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, those of all pairs were copied at once: 100 full ones held the event loop for 19 ms."""
    monkeypatch.setattr(snapshot, "WINDOW", 5)
    copies = list[int]()

    class Counted(deque[tuple[float, float, str]]):
        def copy(self) -> Counted:
            copies.append(len(self))
            return Counted(self, self.maxlen)

    ledger, at_s = Ledger(tmp_path), 0.0
    for tenant in ("gold", "silver"):
        for _ in range(7):
            ledger.record(request(tenant), at_s := at_s + 1.0)
        ledger.usage[tenant, "m"].window = Counted(ledger.usage[tenant, "m"].window, 5)
    old = ledger._begin_segment()
    assert old is not None
    os.close(old)
    sums, written = ledger._sums(), list[str]()
    assert not copies
    for n, piece in enumerate(sums):
        written.append(piece)
        if n < 4:
            ledger.record(request(("gold", "silver")[n % 2], "late"), at_s := at_s + 1.0)
    assert len(copies) == 2
    ledger._keep_sums(ledger._segment, written)
    live = {pair: (use.outcomes, [*use.window]) for pair, use in ledger.usage.items()}
    ledger.close()
    again = Ledger(tmp_path)
    assert {pair: (use.outcomes, [*use.window]) for pair, use in again.usage.items()} == live
    assert live["gold", "m"][0] == {"hit": 7, "late": 2} and len(live["gold", "m"][1]) == 5
    again.close()


def test_the_device_time_of_a_day_survives_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the day lasts, through sums and journals alike."""
    monkeypatch.setattr(module, "SEGMENT_BYTES", 500)
    yesterday, now = 1.9 * DAY_S, 2.5 * DAY_S
    for n in range(40):
        ledger = Ledger(tmp_path)
        for at_s in (yesterday, now) if n == 0 else (now,):
            ledger.record(request(service_s=0.25), at_s)
        assert ledger.today.used_s == {"gold": 0.25 * (n + 1)} and ledger.today.day == 2
        ledger.close()
    today = Today(wall=lambda: now)
    Ledger(tmp_path, today=today).close()
    today.check(Grant("gold", device_s_per_day=10.1))
    with pytest.raises(
        Refused, match=r"'gold' has used 10.0 s of devices today; 10 s are granted, .* in 12.0 h"
    ) as told:
        today.check(Grant("gold", device_s_per_day=10.0))
    assert told.value.retry_after_s == DAY_S / 2
    today.check(Grant("silver", device_s_per_day=1e-9))
    today.wall = lambda: 3.0 * DAY_S
    today.check(Grant("gold", device_s_per_day=10.0))  # a new day


def test_a_clock_that_jumped_ahead_once_leaves_the_limit_of_the_day_on() -> None:
    today = Today()
    today.add("gold", 1.0, 100.5 * DAY_S)
    today.add("gold", 1.0, 3.5 * DAY_S)
    assert (today.day, today.used_s) == (3, {"gold": 1.0})
    today.add("gold", 1.0, 2.9 * DAY_S)  # of yesterday
    assert (today.day, today.used_s) == (3, {"gold": 1.0})


def test_a_crash_between_snapshot_and_new_journal_counts_nothing_twice(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for n in range(5):
        ledger.record(request(), float(n))
    old = next(tmp_path.glob("journal-*.log")).read_bytes()
    ledger.compact()
    ledger.close()
    (tmp_path / "journal-00000000.log").write_bytes(old)  # as if it had not been removed yet
    assert counts(tmp_path) == {("gold", "m"): {"hit": 5}}


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 400))
@example(cut=1)  # the last line lacks its end alone
def test_a_torn_end_loses_that_line_alone(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = Ledger(folder)
    for n in range(6):
        ledger.record(request(), float(n))
    ledger.close()
    path = next(folder.glob("journal-*.log"))
    content = path.read_bytes()
    path.write_bytes(content[: max(0, len(content) - cut)])
    whole = content[: max(0, len(content) - cut)].count(b"\n")
    kept = len(list(read_lines(path)))
    assert whole <= kept <= whole + 1  # a line that lacks only its end of line is whole
    ledger = Ledger(folder)
    ledger.record(request(), 7.0)  # in a journal of its own
    ledger.close()
    assert sum(u.get("hit", 0) for u in counts(folder).values()) == kept + 1


def test_entries_on_one_line_are_all_read_whatever_a_tenant_is_called() -> None:
    names = ["gold", "0badcafe [1.0", 'b"]deadbeef [', "é"]
    texts = [json.dumps([float(n), name, "m", "hit", 0.5, 0.25]).encode() for n, name in enumerate(names)]
    whole = [f"{zlib.crc32(text):08x} ".encode() + text for text in texts]
    assert [name for _, name, *_ in lines_of(b"5f".join(whole) + b"\n")] == names
    assert [name for _, name, *_ in lines_of(whole[0][:20] + whole[1] + whole[2][5:])] == names[1:2]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int | None], None]]:
    """How many bytes of a write it takes; None = all."""
    real, room = os.write, [-1]

    def write(descriptor: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: room[0]] if room[0] > 0 else data)

    def set_room(size: int | None) -> None:
        room[0] = -1 if size is None else size

    monkeypatch.setattr(module.os, "write", write)
    yield set_room


def test_a_full_disk_holds_lines_back_and_no_answer_leaves_before_its_line(
    tmp_path: Path, disk: Callable[[int | None], None], caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, answers left while their lines were in memory alone."""
    ledger = Ledger(tmp_path)
    assert ledger.record(request(), 0.0).outcome == "hit"
    disk(20)
    assert ledger.record(request(), 1.0).outcome == "unavailable"
    disk(0)
    assert ledger.record(request(outcome="late"), 2.0).outcome == "unavailable"
    assert ledger.record(request(outcome="expired"), 3.0).outcome == "expired"
    assert not ledger.writable and len(ledger.held) == 3
    live = {"hit": 1, "unavailable": 2, "expired": 1}
    assert {name: n for name, n in ledger.usage["gold", "m"].outcomes.items() if n} == live
    for _ in range(3):
        ledger.flush()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "it took a part of a line; until it can, requests get 503" in said[0]
    disk(None)
    ledger.flush()
    assert ledger.writable and "can be written again" in caplog.records[-1].getMessage()
    assert ledger.record(request(), 4.0).outcome == "hit"
    ledger.close()
    assert counts(tmp_path) == {("gold", "m"): {**live, "hit": 2}}
    assert caplog.records[-1].levelname == "WARNING" and len(caplog.records) == 2  # no torn line stays


def test_held_lines_are_bounded_and_what_is_lost_is_said(
    tmp_path: Path,
    disk: Callable[[int | None], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 3)
    ledger = Ledger(tmp_path)
    disk(0)
    for n in range(5):
        ledger.record(request(), float(n))
    assert len(ledger.held) == 3 and ledger.lost == 2
    ledger.close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3 and "holds 3 lines that the disk refuses; the oldest are lost" in said[1]
    assert "ends without 3 requests" in said[2]


def test_a_journal_that_does_not_reach_the_disk_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, nobody heard of it."""

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    ledger = Ledger(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", fails)
        for _ in range(3):
            ledger.sync()
    ledger.close()
    assert len(caplog.records) == 1 and "may not be on disk: Input/output error" in caplog.text


def test_two_servers_cannot_share_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with pytest.raises(RecordError, match="belongs to another server"):
        Ledger(tmp_path)
    ledger.close()


WRITER = """
import sys
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.retired import Retired
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.today import DAY_S, Today
from pathlib import Path
ledger = Ledger(Path(sys.argv[1]))
n = 0
while True:
    ledger.record(Retired("gold", "m", "hit", 0.02, 0.0, 0.01, 1, 0, 0.1), float(n))
    n += 1
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
"""


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with children.started(children.python("-c", WRITER, tmp_path), stdout=subprocess.PIPE) as process:
        for _ in range(500):
            acknowledged = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
    kept = counts(tmp_path)["gold", "m"]["hit"]
    assert acknowledged <= kept <= acknowledged + 1
