"""Sixty wrong inputs over all doors: one sentence each, with file, key and remedy; nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.scenarios import SMALL
from tests.cli.shell import Shell

SERVER = """
anonymous = true
[[device]]
name = "cpu"
[[network]]
name = "net"
builtin = "mobilenet-v2"
[[tenant]]
name = "gold"
objectives = [{ model = "*", deadline_ms = 50.0 }]
"""
LOAD = """
[[stream]]
tenant = "gold"
model = "net"
deadline_ms = 50.0
arrivals = { process = "poisson", rate_per_s = 5.0 }
"""
PLAN = """
name = "box"
duration_s = 0.2
[[device]]
type = "simba"
price = 3.0
[[memory]]
gb_s = 16.0
[[tenant]]
name = "cam"
arrivals = { process = "periodic", period_s = 0.05 }
models = [{ model = "squeezenet", deadline_ms = 50.0, slo = { hit_rate = 0.9 } }]
"""
CLUSTER = """
name = "jobs"
[[device]]
type = "v100"
count = 2
[[throughputs.model]]
name = "vision"
speed = { v100 = 4.0 }
[[job]]
id = "a"
type = "vision"
steps = 8000.0
"""
SACCT = (
    "JobID|User|Account|Partition|QOS|State|Submit|Start|ElapsedRaw|TimelimitRaw|ReqTRES|AllocTRES\n"
    + "".join(
        f"{n}|ann|bio|gpu|normal|COMPLETED|2024-03-01T10:0{n}:00|2024-03-01T10:0{n}:30|600|60|gres/gpu:a100=1|gres/gpu:a100=1\n"
        for n in range(9)
    )
)
FILES = {
    "lab.toml": SMALL,
    "torn.toml": 'name = "lab"\nduration_s = = 2\n',
    "bare.toml": SMALL.replace("[platform]", "[platform]\ncontension = 'none'"),
    "mine.py": "def rule(view):\n    return []\n",
    "bytes.toml": 'name = "\udcff"',
    "net.onnx": "not a network",
    "costs.csv": "model,layer\n",
    "trace.csv": "when,who\n0.1,gold\n",
    "late.csv": "arrival_s\n0.1\nsoon\n",
    "study.toml": 'name = "s"\nspeed = 3\n',
    "box.toml": SERVER,
    "load.toml": LOAD,
    "twin.json": "{",
    "plan.toml": PLAN,
    "jobs.toml": CLUSTER,
    "sacct.txt": SACCT,
    "slurm.conf": "ClusterName=x\nNodeName=a1 Gres=gpu:a100:4\nPartitionName=gpu Nodes=a1\n",
    "plain.conf": "ClusterName=x\nNodeName=a1 CPUs=64\nPartitionName=gpu Nodes=a1\n",
    "log.csv": "submit,cards\n1,2\n",
}
# door -> command line -> what its sentence holds
WRONG: dict[str, dict[str, tuple[str, ...]]] = {
    "researcher": {
        "run labs.toml": ("labs.toml", "did you mean lab.toml"),
        "run .": ("Is a directory", "path of a TOML file"),
        "run torn.toml": ("torn.toml", "line 2"),
        "run bare.toml": ("bare.toml", "platform", "'contension'", "did you mean 'contention'"),
        "run lab.toml --set tenants=2": ("lab.toml", "unknown key 'tenants'", "did you mean 'tenant'"),
        "run lab.toml --set tenant.gold.models.0.model=vgg1": ("tenant.gold.models.0.model", "did you mean 'vgg16'"),
        "run lab.toml --set tenant.gold.arrivals.process=poison": ("tenant.gold.arrivals", "'poison'", "poisson"),
        "run lab.toml --set tenant.gold.models.0.slo.hit_rate=95": ("tenant.gold.models.0.slo", "95"),
        "run lab.toml --set platform.contention=maxmin": ("platform.contention", "'maxmin'", "max_min"),
        "run lab.toml --set engine.late=never": ("engine.late", "'never'", "run"),
        "run lab.toml -p edff": ("unknown policy 'edff'", "did you mean 'edf'"),
        "run lab.toml -p yours.py:rule": ("yours.py",),
        "run lab.toml -p mine.py": ("mine.py:FUNCTION",),
        "run lab.toml -p mine.py:rul": ("mine.py", "'rul'", "rule"),
        "compare lab.toml -p published+f": ("unknown policy 'published+f'",),
        "compare lab.toml --seeds 0": ("--seeds", "'0'"),
        "sweep lab.toml --over load=0.5": ("--over load=0.5", "--over 'load=[0.7, 1.0]'"),
        "sweep lab.toml --by hitrate": ("'hitrate'", "did you mean 'hit_rate'"),
        "explain runs/none req-1": ("runs/none",),
        "models net.onnx": ("net.onnx",),
        "trace info trace.csv": ("trace.csv", "arrival_s"),
        "trace info late.csv": ("late.csv", "line 3", "soon"),
        "study study.toml": ("study.toml", "unknown key 'speed'"),
        "run bytes.toml": ("bytes.toml", "UTF-8", "byte 8"),
        "run lab.toml --set duration_s=1e400": ("lab.toml", "duration_s", "finite"),
        "run lab.toml --out /proc/x": ("/proc/x", "choose another directory"),
        "train lab.toml": ("lab.toml", "unknown key 'duration_s'"),
        "rules none.toml": ("none.toml", "eunomia distill"),
        "cluste demo": ("'cluste'", "Did you mean 'cluster'? eunomia -h"),
        "new policy edf": ("'edf'", "choose another name"),
        "new policy my-edf": ("'my-edf'", "my_edf"),
    },
    "platform engineer": {
        "serve boxx.toml": ("boxx.toml", "did you mean box.toml"),
        "serve box.toml --set htp_port=1": ("box.toml", "'htp_port'", "did you mean 'http_port'"),
        "serve box.toml --set http_port=99999": ("box.toml", "http_port", "99999"),
        "serve key --set http_port=1": ("makes a key", "--set"),
        "serve box.toml --set tls_cert=a.pem": ("tls_cert", "tls_key"),
        "serve box.toml --set policy=fair_edff": ("'fair_edff'", "did you mean 'fair_edf'"),
        "serve box.toml --set tenant.gold.key_sha256=['PASTE']": ("tenant.gold.key_sha256", "eunomia serve key"),
        "serve box.toml --set network.net={name='net',onnx='no.onnx'}": ("no.onnx",),
        "serve box.toml --set network.net={name='net'}": ("network 'net'", "onnx =", "builtin ="),
        "serve box.toml --set tenant.gold.objectives.0.model=nett": ("tenant 'gold'", "'nett'", "net"),
        "serve box.toml --set tenant.gold.objectives.0.min_deadline_ms=80": ("min_deadline_ms (80)", "at most"),
        "serve box.toml --set database=mysql://x/y": ("database", "mysql", "postgresql"),
        "serve box.toml --set device.cpu.cores=[512]": ("device 'cpu'", "512"),
        "load 127.0.0.1:1": ("--model NAME",),
        "load load.toml --set url=http://127.0.0.1:8001": ("HOST:PORT",),
        "load load.toml --set stream.0.key_env=NO_SUCH_KEY": ("NO_SUCH_KEY", "not set"),
        "load load.toml --set stream.0.arrivals.rate=5": ("load.toml", "stream.0.arrivals", "'rate'", "rate_per_s"),
        "load load.toml --set tls_ca=net.onnx --set protocol=http": ("net.onnx", "PEM"),
        "twin predict twin.json": ("twin.json",),
        "twin record 127.0.0.1:8000": ("http://",),
        "serve lab.toml": ("lab.toml", "[[device]]"),
        "load load.toml --set stream.0.deadline_ms=0": ("load.toml", "stream.0.deadline_ms is 0"),
        "promote http://127.0.0.1:8000 mine.py:rule": ("mine.py:rule",),
    },
    "architect": {
        "plan plan.toml --set device.0.type=simbaa": ("device", "'simbaa'", "did you mean 'simba'"),
        "plan plan.toml --set device.0.least=9": ("least is 9", "most is 4"),
        "plan plan.toml --set target=joules": ("plan.toml", "target", "'joules'", "energy"),
        "plan plan.toml --set tenant.cam.models.0.slo={latency_p95_ms=9.0}": ("tenant", "hit_rate"),
        "platforms simba9": ("'simba9'", "did you mean 'simba'"),
        "costs check costs.csv lab.toml": ("costs.csv",),
    },
    "planner": {
        "plan plan.tml": ("plan.tml", "did you mean plan.toml"),
        "plan plan.toml --set bounds.watts=5": ("bounds", "'watts'", "power_w"),
        "plan plan.toml --set device.0.price=-1": ("price", "-1"),
        "cluster plan plan.toml": ("plan.toml", "unknown key 'duration_s'"),
        "plan plan.toml --set memory=[]": ("plan.toml", "memory", "at least 1"),
        "plan lab.toml": ("lab.toml",),
        "trace convert trace.csv": ("trace.csv",),
    },
    "operator": {
        "cluster jobs sacc.txt": ("sacc.txt",),
        "cluster jobs trace.csv --format sacct": ("trace.csv", "sacct -a -P"),
        "cluster whatif sacct.txt": ("sacct.txt", "--slurm"),
        "cluster whatif sacct.txt --kueue slurm.conf": ("slurm.conf", "kubectl get"),
        "cluster jobs sacct.txt --format slurm": ("'slurm'", "sacct"),
        "cluster jobs log.csv --column gpus=Cards": ("log.csv", "Cards"),
        "cluster whatif sacct.txt --shares sshare.txt": ("--shares", "--slurm FILE"),
        "cluster whatif sacct.txt --slurm slurm.con": ("slurm.con",),
        "cluster whatif sacct.txt --slurm plain.conf": ("plain.conf", "Gres"),
        "cluster whatif sacct.txt --slurm slurm.conf --add a100=two": ("--add a100=two", "NAME=NUMBER"),
        "cluster whatif sacct.txt --slurm slurm.conf --remove h100=2": ("h100", "a100"),
        "cluster whatif sacct.txt --slurm slurm.conf --weight chem=2": ("chem", "bio"),
        "cluster compare jobs.toml -p themiss": ("'themiss'", "did you mean 'themis'"),
        "cluster compare jobs.toml --set job.0.type=speech": ("speech",),
        "cluster simulate jobs.toml --set device.0.count=0": ("jobs.toml", "device.v100.count is 0", "at least 1"),
    },
}  # fmt: skip
CASES = [(door, line, words) for door, lines in WRONG.items() for line, words in lines.items()]


def test_there_are_sixty_and_some_of_every_door() -> None:
    assert len(CASES) >= 60 and all(len(lines) >= 5 for lines in WRONG.values())


@pytest.mark.parametrize(("door", "line", "words"), CASES, ids=[f"{door}: {line}" for door, line, _ in CASES])
def test_a_wrong_input_is_one_sentence_and_leaves_nothing(
    shell: Shell, tmp_path: Path, door: str, line: str, words: tuple[str, ...]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    done = shell(*line.split(" "))
    assert done.code in (1, 2), done.out
    begun = "loading 1 network on 1 device"  # said before the network file is read
    (sentence,) = (each for each in done.err.splitlines() if begun not in each)
    assert sentence.startswith("eunomia: ") and "Traceback" not in sentence
    assert [word for word in words if word not in sentence] == [], sentence
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} - set(FILES) - {"runs"}
    assert not left, f"left behind: {sorted(left)}"
    assert done.out == ""


def test_a_failed_comparison_does_not_refuse_its_own_repetition(shell: Shell, tmp_path: Path) -> None:
    for right, verb in ((False, "compare"), (True, "compare"), (False, "study"), (True, "study")):
        (tmp_path / "jobs.toml").write_text(
            CLUSTER if right else CLUSTER.replace('type = "vision"', 'type = "speech"')
        )
        more = ["--over", "simulation.round_s=[60.0]"] if verb == "study" else []
        done = shell(
            "cluster", verb, "jobs.toml", "-p", "fifo", "--seeds", "1", "--out", f"out-{verb}", *more
        )
        assert (done.code == 0) is right and "holds another" not in done.err, done.err
