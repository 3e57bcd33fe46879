"""A slurm.conf in the order and the files that administrators choose: sets of nodes first, files that include files."""

from __future__ import annotations

from pathlib import Path

import pytest

from eunomia.cluster.operators.slurm_conf import SlurmConf, read_slurm_conf
from eunomia.core.errors import TraceError

NODES = "NodeName=a[1-2] Gres=gpu:a100:4 Feature=big\nNodeName=b1 Gres=gpu:t4:2\n"
SETS = "NodeSet=all Nodes=fast,b1\nNodeSet=fast Feature=big\nNodeSet=odd Nodes=a1 Feature=none\n"
PARTS = "PartitionName=f Nodes=fast\nPartitionName=e Nodes=all\nPartitionName=o Nodes=odd\nPartitionName=x Nodes=ALL\n"


def _read(folder: Path, **files: str) -> SlurmConf:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.conf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_slurm_conf(folder / "slurm.conf")


@pytest.mark.parametrize(
    "text", [NODES + SETS + PARTS, SETS + NODES + PARTS, PARTS + SETS + NODES, PARTS + NODES + SETS]
)
def test_sets_of_nodes_stand_anywhere(tmp_path: Path, text: str) -> None:
    found = _read(tmp_path, slurm=text)
    assert {name: part.types for name, part in found.partitions.items()} == {
        "f": ("a100",),
        "e": ("a100", "t4"),
        "o": ("a100",),
        "x": ("a100", "t4"),
    }
    assert found.empty == ()


def test_sets_that_hold_each_other_end(tmp_path: Path) -> None:
    found = _read(
        tmp_path, slurm="NodeSet=p Nodes=q,a1\nNodeSet=q Nodes=p\nPartitionName=f Nodes=p\n" + NODES
    )
    assert found.partitions["f"].types == ("a100",)


def test_a_partition_whose_nodes_have_no_gpu_is_told(tmp_path: Path) -> None:
    """None where it names no nodes, as its jobs go nowhere then."""
    text = (
        NODES
        + "NodeName=c1 CPUs=8\nPartitionName=cpu Nodes=c1\nPartitionName=odd Nodes=fats\nPartitionName=no\n"
    )
    assert _read(tmp_path, slurm=text).empty == ("cpu", "odd")


@pytest.mark.parametrize(
    ("gres", "counts"),
    [
        ("gpu:no_consume:4", {"gpu": 4}),
        ("gpu:t4:no_consume:4", {"t4": 4}),
        ("gpu:NO_CONSUME:4", {"gpu": 4}),
        ("gpu:no_consume", {"gpu": 1}),
        ("gpu:no_consume_x:2", {"no_consume_x": 2}),
        ("gpu:4", {"gpu": 4}),
    ],
)
def test_gpus_that_jobs_share(tmp_path: Path, gres: str, counts: dict[str, int]) -> None:
    assert _read(tmp_path, slurm=f"NodeName=a1 Gres={gres}\n").counts == counts


def test_an_error_names_the_file_in_which_it_stands(tmp_path: Path) -> None:
    wrong = (
        ("NodeName=a1 Gres=gpu:x:y\n", "'gpu:x:y' is no Gres"),
        ("\nNodeName=a[1-\n", "is no list of nodes"),
        (NODES + "PartitionName=p Nodes=a1 MaxTime=soon\n", "'soon' is no time"),
        (NODES + "PriorityWeightAge=much\n", "'much' is no number"),
        (NODES + "NodeSet=s Nodes=a[1-\n", "is no list of nodes"),
    )
    for text, says in wrong:
        with pytest.raises(TraceError, match=says) as failed:
            _read(tmp_path, slurm="ClusterName=c\nInclude more.conf\n", more=text)
        line = text.count("\n")
        assert str(failed.value).startswith(f"{tmp_path / 'more.conf'}, line {line}"), failed.value


def test_a_file_is_not_read_into_itself(tmp_path: Path) -> None:
    """``include /etc/slurm/common/slurm.conf``: only the last part of its path counts."""
    found = _read(tmp_path, slurm="include /etc/slurm/common/slurm.conf\nPartitionName=f Nodes=a1\n" + NODES)
    assert "include" in found.ignored and list(found.partitions) == ["f"]
    deep = {"slurm": "Include one.conf\n", "one": "Include two.conf\n", "two": "Include one.conf\n" + NODES}
    found = _read(tmp_path / "deep", **deep)
    assert found.counts == {"a100": 8, "t4": 2} and "include" in found.ignored
    twice = _read(
        tmp_path / "twice",
        slurm="Include a.conf\nInclude b.conf\n" + NODES,
        a="Include c.conf\n",
        b="Include c.conf\n",
        c="PriorityWeightAge=7\n",
    )
    assert twice.settings["age"] == 7.0 and "include" not in twice.ignored
