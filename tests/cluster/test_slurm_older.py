"""A daemon that takes over the folder of an older one: its journal and the records of its jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eunomia.study.cluster.slurm_ask import status
from eunomia.study.cluster.slurm_daemon import JOURNAL, read_book
from tests.cluster.fake_slurm import job
from tests.cluster.test_slurm_daemon import PERF, World

OLD_JOB = (
    '{"key": 4, "free": true, "submit_s": 1900.0, "began_s": 1905.0, "share": {"a100": 1.0}, "credit": {"a100": 20.0}, '
    '"had_s": {"a100": 90.0}, "isolated_s": 0.0, "rate": {}, "steps": 0.0, "total": 0.0, "speed": {"a100": 1.0}, '
    '"isolated_rate": 1.0}'
)
OLD = (  # as the first daemon wrote it: no queue, no start of slurmctld, no twins
    f'{{"jobs": {{"1": {OLD_JOB}, "8": {OLD_JOB.replace("4", "5", 1)}}}, "target": {{"1": "a100", "8": "a100"}}, '
    '"why": {"1": "its turn"}, "warned": {"8": {"restarts": 0, "at_s": 1980.0, "sent": true}}, '
    '"accounts": {"gold": [100.0, 90.0]}, "rounds": 3, "round_ends_s": 2040.0, "looked_s": 1995.0, "next_key": 6}'
)


def test_the_folder_of_an_older_daemon_is_gone_on_with(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "jobs").mkdir(parents=True)
    (state / JOURNAL).write_text(OLD)
    (state / "jobs" / "first.sh").touch()
    (state / "jobs" / "first.handed").write_text(
        '{"job": "1", "at_s": 1890.0, "words": ["sbatch", "first.sh"]}\n'
    )
    told: Any = status(state)
    assert [each["job"] for each in told["jobs"]] == ["1", "8"] and told["lost"] == []
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"), j2=job("silver", 2, "a100"))
    assert world.daemon.book.queued == ["1", "8"] and world.daemon.book.boot == ""
    world.now["jobs"]["1"].update(state="RUNNING", priority=1, began=1905)
    world.look()
    book = read_book(state)
    assert (book.jobs["1"].key, book.jobs["2"].key, book.rounds) == (4, 6, 3) and "8" not in book.jobs
    assert book.jobs["1"].had_s["a100"] > 90.0 and not book.jobs["1"].free and book.queued == ["1", "2"]
    for _ in range(40):
        world.look()
    starts = {name: each.get("starts", 0) for name, each in world.now["jobs"].items()}
    assert starts["2"] >= 1 and read_book(state).rounds > 3
