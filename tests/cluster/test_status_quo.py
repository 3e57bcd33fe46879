"""``whatif --slurm`` and ``--kueue``: logs of known schedulers are replayed exactly, and wrong files are named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eunomia.cluster.operators.kueue_queues import read_kueue_queues
from eunomia.cluster.operators.slurm_conf import read_slurm_conf
from eunomia.cluster.operators.slurm_lines import hosts
from eunomia.cluster.operators.slurm_shares import read_shares
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.kueue.allocator import Kueue
from eunomia.cluster.policies.kueue.model import Quota
from eunomia.cluster.policies.slurm.fair_share import ShareTree, classic
from eunomia.core.errors import ConfigError, TraceError, UnknownNameError
from eunomia.study.cluster.calibration import Calibration
from eunomia.study.cluster.status_quo import Log
from eunomia.study.cluster.status_quo_kueue import what_if_kueue
from eunomia.study.cluster.status_quo_slurm import what_if_slurm
from eunomia.study.cluster.whatif import Change
from tests.cluster import status_quo_logs as logs

NOTHING = Change()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Path]:
    """A log of 120 jobs under the slurm.conf beside it."""
    folder = tmp_path_factory.mktemp("slurm")
    conf = logs.conf(folder)
    trained = logs.jobs()
    start_s = logs.run(read_slurm_conf(conf).allocator(), trained, {"a100": 8, "v100": 8})
    return Log(logs.sacct(folder, trained, start_s)), conf


@pytest.fixture(scope="module")
def kueue(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Path]:
    """The same jobs in two queues, on one flavor."""
    folder = tmp_path_factory.mktemp("kueue")
    queues = logs.queues(folder)
    trained = [replace(j, job_type="a100", tenant=j.tenant.split("/")[0]) for j in logs.jobs()]
    start_s = logs.run(Kueue(setup=read_kueue_queues(queues).setup), trained, {"a100": 8})
    return Log(logs.workloads(folder, trained, start_s)), queues


# --- calibration


def test_a_log_made_by_the_model_is_replayed_exactly(slurm: tuple[Log, Path]) -> None:
    found = what_if_slurm(*slurm, NOTHING)
    c = found.calibration
    assert c.jobs == 108 and c.error_s == c.median_error_s == c.p90_error_s == 0.0
    assert c.observed_mean_s > 3600.0
    for name, value in found.log.items():
        assert found.before.metrics[name] == pytest.approx(value), name
    assert found.changes == ("nothing changed: the calibration alone",)
    assert (
        "the log 5.19 h; nine in ten jobs wait as long as in the log" in found.footnotes()[0]
        and "calibration" in found.summary()
    )


def test_another_model_shows_its_error_and_marks_what_is_smaller(
    slurm: tuple[Log, Path], tmp_path: Path
) -> None:
    """The log was made by backfill; its slurm.conf says there is none. The replay is hours off, and says so."""
    wrong = logs.conf(tmp_path, logs.CONF.replace("sched/backfill", "sched/builtin"))
    found = what_if_slurm(slurm[0], wrong, Change(add={"v100": 1}))
    assert found.calibration.error_s > 3600.0 and found.calibration.median_error_s > 600.0
    assert "(within the error)" in found.table().text()
    assert "(within the error)" not in what_if_slurm(*slurm, Change(add={"a100": 8})).table().text()


def test_workloads_made_by_the_model_are_replayed(kueue: tuple[Log, Path]) -> None:
    """Evicted workloads are in the log with their last admission: all others wait as long as in the log."""
    found = what_if_kueue(*kueue, NOTHING)
    assert found.calibration.jobs == 108 and found.calibration.p90_error_s == 0.0
    assert abs(found.calibration.error_s) < 0.02 * found.calibration.observed_mean_s


def test_a_log_without_waits_says_that_the_error_is_unknown(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("submit,gpus,duration,tenant\n0,1,60,bio/ann\n5,2,60,chem/cy\n")
    found = what_if_slurm(Log(log), logs.conf(tmp_path), NOTHING)
    assert found.calibration.jobs == 0 and "error of the replay is unknown" in found.footnotes()[0]
    assert found.log == {}


# --- changes


def test_changes_of_a_slurm_cluster(slurm: tuple[Log, Path]) -> None:
    found = what_if_slurm(
        *slurm, Change(add={"a100": 8}, remove={"v100": 4}, weight={"chem": 3.0, "bio/ann": 0.5})
    )
    assert found.changes == (
        "a100: 8 -> 16 devices", "v100: 8 -> 4 devices", "shares of 'chem' times 3", "shares of 'bio/ann' times 0.5",
    )  # fmt: skip
    other = what_if_slurm(*slurm, NOTHING, policy=allocator("least_attained_service"))
    assert "Ordered instead of Slurm" in other.changes and other.after.metrics["preemptions"] > 0
    named = what_if_slurm(replace(slurm[0], most_jobs=10), slurm[1], NOTHING, policy="srtf")
    assert "srtf instead of Slurm" in named.changes
    with pytest.raises(UnknownNameError, match="'PriorityWeightAg'; did you mean 'PriorityWeightAge'"):
        what_if_slurm(*slurm, NOTHING, settings={"PriorityWeightAg": "5"})
    first = what_if_slurm(replace(slurm[0], most_jobs=40), slurm[1], NOTHING)
    assert (
        first.before.metrics["jobs"] == 40.0
        and "the last 80 jobs left out (jobs = 40)" in first.before.remarks
    )


def test_more_shares_shorten_the_waits_of_their_account(slurm: tuple[Log, Path], tmp_path: Path) -> None:
    shares = tmp_path / "sshare"
    shares.write_text(
        "Account|User|RawShares|NormShares|RawUsage|\nroot|||0.0|9|\n lab||10|1|9|\n  bio||90|0.5|9|\n"
        "   bio|ann|1|0.5|9|\n   bio|bob|parent|0.5|9|\n  chem||10|0.1|9|\n  idle||50|0.1|0|\n"
    )
    found = what_if_slurm(*slurm, Change(weight={"lab/chem": 20.0}), shares=shares)
    before, after = ({name: value for name, *value in found.tenants()}["lab/chem/cy"][k] for k in (0, 1))
    assert after < before


def test_changes_of_queues(kueue: tuple[Log, Path]) -> None:
    found = what_if_kueue(
        *kueue, Change(weight={"chem": 2.0}, price={"a100": 2.0}), quota={"chem:a100": 6.0},
        settings={"fairSharing": "true", "bio:queueingStrategy": "StrictFIFO", "*:borrowingLimit:a100": "1"},
    )  # fmt: skip
    assert found.changes == (
        "quota of 'chem' on a100: 2 -> 6", "fairSharing = true", "bio:queueingStrategy = StrictFIFO",
        "*:borrowingLimit:a100 = 1", "queue 'chem': weight times 2",
    )  # fmt: skip
    before, after = ({name: value for name, *value in found.tenants()}["chem"][k] for k in (0, 1))
    assert after < before and found.before.metrics["cost"] > 0.0


def test_untyped_gpus_partitions_and_qos(slurm: tuple[Log, Path], tmp_path: Path) -> None:
    """A slurm.conf with GPUs of no type takes typed jobs; a higher QOS goes first."""
    text = "NodeName=n[1-4] Gres=gpu:4\nPartitionName=other Nodes=ALL\nPriorityWeightQOS=1000\nPriorityWeightAge=1"
    conf = logs.conf(tmp_path, text)
    found = what_if_slurm(slurm[0], conf, NOTHING, qos={"normal": 5.0})
    assert found.before.metrics["finished"] == 120.0
    assert "partitions that slurm.conf lacks: gpu" in found.before.remarks
    conf = logs.conf(
        tmp_path, text.replace("other Nodes=ALL", "gpu Nodes=login\nPartitionName=cpu Nodes=login")
    )
    found = what_if_slurm(slurm[0], conf, NOTHING)
    assert "partitions of slurm.conf without GPUs, whose jobs run anywhere: gpu" in found.before.remarks


def test_policies_by_name_take_the_files(
    slurm: tuple[Log, Path], kueue: tuple[Log, Path], tmp_path: Path
) -> None:
    shares = tmp_path / "sshare"
    shares.write_text("Account|User|RawShares\n bio||90\n")
    found = allocator("slurm", conf=str(slurm[1]), sshare=str(shares), backfill="easy")
    assert (found.age, found.backfill, found.shares) == (1000.0, "easy", {"bio": 90.0})  # type: ignore[attr-defined]
    assert allocator("kueue", queues=str(kueue[1])).setup.queues[0].name == "bio"  # type: ignore[attr-defined]
    for name, settings, message in (
        ("slurm", {"knob": 1}, "unknown setting 'knob' of cluster policy 'slurm'"),
        ("slurm", {"conf": str(slurm[1]), "knob": 1}, "unknown setting 'knob' of cluster policy 'slurm'"),
        ("kueue", {"queues": str(kueue[1]), "within": "Never"}, "leave out within, or the file"),
        ("kueue", {"setup": "queues.yaml"}, "setup is 'queues.yaml'; give queues=FILE"),
    ):
        with pytest.raises(ConfigError, match=message):
            allocator(name, **settings)


# --- the files


def test_what_a_slurm_conf_says(tmp_path: Path) -> None:
    found = read_slurm_conf(logs.conf(tmp_path))
    assert (found.counts, found.per_node) == ({"a100": 8, "v100": 8}, {"a100": 4, "v100": 4})
    assert found.partitions["fast"].types == ("a100",) and found.partitions["fast"].priority == 3.0
    assert found.partitions["gpu"].limit_s == 172_800.0
    policy = found.allocator()
    assert (policy.age, policy.fair_share, policy.qos, policy.max_age_s) == (1000.0, 10_000.0, 0.0, 86_400.0)
    assert (policy.backfill, policy.window_s, policy.depth, policy.tree) == (
        "slurm",
        172_800.0,
        100,
        "fair_tree",
    )
    flags = (
        logs.CONF + "PriorityFlags=NO_FAIR_TREE,ACCRUE_ALWAYS\nPreemptType=preempt/qos\nInclude other.conf\n"
    )
    flags += "PartitionName=b Nodes=ALL TRESBillingWeights=CPU=1.0,GRES/gpu=2,GRES/gpu:a100=4\n"
    other = read_slurm_conf(logs.conf(tmp_path, flags))
    assert other.settings["tree"] == "classic" and other.ignored == ("preempttype", "include")
    assert other.settings["billing"] == {"a100": 4.0, "v100": 2.0}
    assert (
        read_slurm_conf(logs.conf(tmp_path), {"PriorityType": "priority/basic"}).allocator().fair_share == 0.0
    )


STRANGERS = """\
include /etc/slurm/nodes.conf
NodeName=r[0-1]n[2-3] GRES=GPU:h100:8(S:0-1),nvme:1 Feature=ib,h100
NodeName=t1 Gres=gpu:tesla:no_consume:4
NodeSet=fast Feature=h100
NodeSet=small Nodes=a[1-2]
PartitionName=big Nodes=fast,t1
PartitionName=little Nodes=small,r0n2
DownNodes=a2 State=DOWN
"""


def test_a_strangers_slurm_conf(tmp_path: Path) -> None:
    """Sets of nodes by name and by feature, two ranges in a name, Gres in capitals, a file beside that is included."""
    (tmp_path / "nodes.conf").write_text("NodeName=a[1-2] Gres=gpu:a100:4\nInclude more.conf\n")
    path = tmp_path / "slurm.conf"
    path.write_text(STRANGERS)
    found = read_slurm_conf(path)
    assert found.counts == {"a100": 8, "h100": 32, "tesla": 4} and found.per_node["h100"] == 8
    assert found.partitions["big"].types == ("h100", "tesla")
    assert found.partitions["little"].types == ("a100", "h100")
    assert found.ignored == ("downnodes", "include")  # more.conf is not there


def test_lists_of_nodes() -> None:
    path = Path("slurm.conf")
    assert hosts(path, 1, "r[0-1]n[08-09]x,b") == ["r0n08x", "r0n09x", "r1n08x", "r1n09x", "b"]
    assert hosts(path, 1, "gpu[001-003,07],big1,r[1-2]n") == [
        "gpu001",
        "gpu002",
        "gpu003",
        "gpu07",
        "big1",
        "r1n",
        "r2n",
    ]
    for wrong in ("a[1-", "a[x-y]", "a[1-9999999]"):
        with pytest.raises(TraceError, match=r"slurm.conf, line 1: .*; (write|split)"):
            hosts(path, 1, wrong)


def test_accounts_without_jobs_dilute_the_classic_factor() -> None:
    idle = ShareTree.of(("a/x", "b/y"), {"a": 1.0, "b": 1.0, "c": 2.0}, idle=True)
    assert classic(idle, np.array([1.0, 0.0])) == pytest.approx([2**-4.0, 1.0])
    with pytest.raises(ConfigError, match="shares are given for 'c'"):
        ShareTree.of(("a/x", "b/y"), {"c": 2.0})


def test_what_queues_say(tmp_path: Path) -> None:
    text = json.dumps(logs.QUEUES).replace(
        '"nominalQuota": 6', '"nominalQuota": "6", "borrowingLimit": 1, "lendingLimit": 0'
    )
    text = text.replace('"cohort"', '"fairSharing": {"weight": "500m"}, "cohort"')
    found = read_kueue_queues(logs.queues(tmp_path, text))
    bio = found.setup.queues[0]
    assert (bio.name, bio.quotas, bio.cohort) == ("bio", {"a100": Quota(6, 1, 0)}, "all")
    assert (bio.within, bio.reclaim, bio.borrow_within, bio.weight) == ("LowerPriority", "Any", "Never", 0.5)
    assert found.counts == {"a100": 8} and not found.setup.fair_sharing


NODE = "NodeName=a Gres=gpu:a100:4\n"
CONF_WRONG = [
    ("Configuration data as of 2026-06-17T10:00:00\nBOOT_TIME = x\n", "scontrol show config lists no nodes"),
    ("ClusterName=x\n", "no NodeName line has GPUs; give Gres=gpu:TYPE:COUNT there"),
    ("NodeName=a Gres=gpu:a100:four\n", "line 1, column 'Gres': 'gpu:a100:four' is no Gres of GPUs; write gpu:a100:4"),
    (NODE + "PriorityWeightAge=much\n", "line 2, column 'priorityweightage': 'much' is no number of at least 0"),
    (NODE + "PriorityMaxAge=ages\n", "line 2, column 'prioritymaxage': 'ages' is no time; write 7-0"),
    (NODE + "SchedulerType=sched/own\n", "'sched/own' is not modelled; choose sched/backfill or sched/builtin"),
    (NODE + "PartitionName=p Nodes=a MaxTime=long\n", "line 2, column 'maxtime': 'long' is no time; write 2-00:00:00"),
    (NODE + "what is this\n", "line 2: 'what' is no Key=Value; write it as in slurm.conf(5)"),
    (NODE + "PartitionName=p Nodes=a[1-x]\n", "line 2: '1-x' is no range of nodes; write gpu[001-004]"),
]  # fmt: skip
QUEUES_WRONG = [
    ('"Any"', '"Always"', "ClusterQueue 'bio': reclaim is 'Always'; choose one of: Never, LowerPriority, Any"),
    ('"nominalQuota": 6', '"nominalQuota": "a few"', "ClusterQueue 'bio': 'a few' is no number of devices; write"),
    ('"chem"', '"bio"', "ClusterQueue 'bio' is defined twice; names must be unique"),
    ('"ClusterQueue"', '"Queue"', "no ClusterQueue in the file; write it with kubectl get clusterqueues,cohorts"),
    ("nvidia.com/gpu", "cpu", "no ClusterQueue has a quota of GPUs, only of: "),
    ('"cohort"', '"fairSharing": {"weight": "big"}, "cohort"', "ClusterQueue 'bio': weight 'big' is no number; write"),
    ('{"kind": "List", "items": [', '{"kind": "List", "items": [{"kind": "Cohort", "metadata": {"name": "all"}, '
     '"spec": {"parentName": "org"}}, ', "Cohort 'all' has the parent 'org'; cohorts of cohorts are not modelled"),
]  # fmt: skip
SHARES_WRONG = [
    (
        "Account|User\n",
        "line 1, column 'RawShares': this column is missing; write the file with sshare -a -P",
    ),
    (
        "Account|User|RawShares\n bio||many\n",
        "line 2, column 'RawShares': 'many' is no number of shares; write it as",
    ),
    ("Account|User|RawShares\nroot||\n", "the file has a header but no shares; write it with sshare -a -P"),
    ("Account|User|RawShares\n bio|\n", "line 2: this line has 2 fields, the header has 3"),
]


def refused(read, path: Path, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TraceError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and message in text and "\n" not in text and not text.endswith(".")


@pytest.mark.parametrize(("text", "message"), CONF_WRONG, ids=range(len(CONF_WRONG)))
def test_a_wrong_slurm_conf(tmp_path: Path, text: str, message: str) -> None:
    refused(read_slurm_conf, logs.conf(tmp_path, text), message)


@pytest.mark.parametrize(("old", "new", "message"), QUEUES_WRONG, ids=range(len(QUEUES_WRONG)))
def test_wrong_queues(tmp_path: Path, old: str, new: str, message: str) -> None:
    refused(read_kueue_queues, logs.queues(tmp_path, json.dumps(logs.QUEUES).replace(old, new)), message)


@pytest.mark.parametrize(("text", "message"), SHARES_WRONG, ids=range(len(SHARES_WRONG)))
def test_wrong_shares(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sshare"
    path.write_text(text)
    refused(read_shares, path, message)


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (Change(weight={"bi": 2.0}), {}, "unknown account or user 'bi'; did you mean 'bio'"),
        (Change(weight={"bio": 0.0}), {}, "weight bio=0.0: it must be greater than 0"),
        (Change(remove={"a100": 9}), {}, "remove a100=9: there are 8"),
        (Change(remove={"h100": 1}), {}, "unknown device type 'h100'"),
        (Change(remove={"a100": 8}), {}, "device type 'a100' of job"),
        (
            NOTHING,
            {"settings": {"PriorityWeightAge": "x"}},
            "^--set PriorityWeightAge: 'x' is no number of at least 0",
        ),
        (NOTHING, {"settings": {"PriorityMaxAge": "x"}}, "^--set PriorityMaxAge: 'x' is no time; write 7-0"),
        (NOTHING, {"settings": {"SchedulerType": "x"}}, "^--set SchedulerType: 'x' is not modelled; choose"),
        (
            NOTHING,
            {"settings": {"SchedulerParameters": "bf_window=x"}},
            "^--set SchedulerParameters=bf_window: 'x' is no number of at least 0; write one",
        ),
        (
            NOTHING,
            {"settings": {"SchedulerParameters": "bf_window=60,bf_interval=abc"}},
            "^--set SchedulerParameters: 'bf_interval=abc' is not modelled; choose bf_window, bf_resolution",
        ),
        (
            NOTHING,
            {"settings": {"PriorityFavorSmall": "maybe"}},
            "^--set PriorityFavorSmall: 'maybe' is neither",
        ),
    ],
)
def test_changes_that_make_no_sense(
    slurm: tuple[Log, Path], change: Change, more: dict, message: str
) -> None:  # type: ignore[type-arg]
    with pytest.raises(ConfigError, match=message):
        what_if_slurm(*slurm, change, **more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"quota": {"chem": 6.0}}, "--quota chem=6: write QUEUE:FLAVOR=COUNT"),
        ({"quota": {"chem:a10": 6.0}}, "unknown flavor 'a10' of ClusterQueue 'chem'; did you mean 'a100'"),
        ({"quota": {"chm:a100": 6.0}}, "unknown ClusterQueue 'chm'; did you mean 'chem'"),
        ({"settings": {"fairSharing": "yes"}}, "--set fairSharing=yes: write true or false"),
        ({"settings": {"bio:strategy": "x"}}, "unknown setting 'strategy'"),
        ({"settings": {"bio:queueingStrategy": "x"}}, "strategy is 'x'; choose one of"),
        ({"settings": {"bio:lendingLimit:a100": "x"}}, "write QUEUE:lendingLimit:FLAVOR=COUNT"),
    ],
)
def test_settings_of_queues_that_make_no_sense(kueue: tuple[Log, Path], more: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ConfigError, match=message):
        what_if_kueue(*kueue, NOTHING, **more)


@pytest.mark.parametrize(
    ("observed_s", "replayed_s", "fits"),
    [
        (600.0, 1199.0, True),
        (600.0, 1201.0, False),
        (600.0, 299.0, False),
        (0.0, 0.9, True),
        (0.0, 2.0, False),
    ],
)
def test_a_replay_far_from_its_log_is_said(observed_s: float, replayed_s: float, fits: bool) -> None:
    found = Calibration(100, observed_s, replayed_s, 1.0, 2.0)
    assert found.fits is fits
    assert ("signs, not as sizes" in found.text()) is not fits
