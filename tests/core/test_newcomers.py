"""What a foreign package, a file or a table line adds works by every way, in every form, with a real entry point."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.core.registry import Registry
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.catalogue import own_policy
from tests import children
from tests.core import newcomers

HERE = Path(__file__).parent
GROUPS = {
    "policies": ("last_first", "Patient", "patient", "patience", "broken"),
    "cluster_policies": ("Equal", "equal", "equality"),
    "arrivals": ("Metronome", "metronome"),
    "traces": ("seconds", "SECONDS"),
    "job_traces": ("durations",),
    "models": ("twin_of_kws",),
    "accelerators": ("large_simba",),
}


def install(folder: Path) -> dict[str, str]:
    """A package ``foreign`` with a distribution of its own; returns the environment in which it is installed."""
    shutil.copyfile(HERE / "newcomers.py", folder / "foreign.py")
    info = folder / "foreign_schedulers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-schedulers\nVersion: 1.0\n")
    lines = []
    for group, names in GROUPS.items():
        lines += [f"[eunomia.{group}]", *(f"foreign-{name} = foreign:{name}" for name in names)]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(children.ROOT)])}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the child printed."""
    folder, own = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("own")
    shutil.copyfile(HERE / "newcomers.py", own / "mine.py")
    (own / "times.txt").write_text("".join(f"{0.004 * i}\n" for i in range(1, 41)))
    command = children.python(HERE / "newcomers_child.py", own / "mine.py", own / "times.txt")
    done = children.run(command, env=install(folder))
    assert done.returncode == 0, done.stderr
    table: dict[str, Any] = json.loads(done.stdout)
    return table


@pytest.mark.parametrize("name", ["last_first", "Patient", "patient", "patience"])
def test_policies_of_every_form_decide_alike_by_every_way(found: dict[str, Any], name: str) -> None:
    every = found["policies"]
    plain = every["last_first"]["object"][0]
    assert plain[1] > 100 and 0.0 < plain[2] < 1.0
    other = every["last_first"]["file"][1]
    assert other[2] != plain[2], "the setting decides nothing"
    for way, results in every[name].items():
        assert results[0][1:] == plain[1:], way
        assert all(result[1:] == other[1:] for result in results[1:]), way
    assert len(every[name]["entry point"]) == (1 if name == "patience" else 2)


def test_policies_are_called_by_their_names(found: dict[str, Any]) -> None:
    results = found["policies"]["last_first"]
    assert [result[0] for result in results["file"]] == ["last_first", "last_first(skip=1)"]
    assert [result[0] for result in results["entry point"]] == ["last_first", "last_first(skip=1)"]
    assert results["object"][0][0] == "last_first"


def test_an_answer_that_is_none_is_blamed_on_its_policy(found: dict[str, Any]) -> None:
    for results in found["policies"]["broken"].values():
        assert results[0].startswith(
            "PolicyError: policy 'broken' must return a list of Assign; it returned None"
        )


@pytest.mark.parametrize("kind", ["allocators", "arrivals", "traces", "job traces", "networks", "types"])
def test_other_kinds_give_the_same_by_every_way(found: dict[str, Any], kind: str) -> None:
    results = [result for ways in found[kind].values() for result in ways.values()]
    wanted = {
        "arrivals": ["edf", 50, pytest.approx(1.0)],
        "traces": ["edf", 40, pytest.approx(1.0)],
    }.get(kind, results[0])
    assert kind == "allocators" or all(result == wanted for result in results)
    if kind == "allocators":
        assert all(result[0] == results[0][0] for result in results)
        halves = [result[1] for result in results if len(result) > 1]
        assert halves == [halves[0]] * 6 and halves[0] != results[0][0]


def test_a_foreign_process_is_scaled_to_a_load(found: dict[str, Any]) -> None:
    assert found["scaled"][1] > 100


def test_a_name_from_afar_never_runs_a_file(tmp_path: Path) -> None:
    path = tmp_path / "evil.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f(view): return []\n")
    for name in (f"{path}:f", f"lookahead(base={path}:f)", f"deferring(base={path}:f)", f"{path}:f(skip=1)"):
        with pytest.raises(ConfigError):
            load_policy(name)
    assert not (tmp_path / "ran").exists()


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "worn_out-2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: worn-out\nVersion: 2\n")
    (info / "entry_points.txt").write_text("[eunomia.things]\nworn = no_such_module:thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("thing", "eunomia.things", {})
    with pytest.raises(
        ConfigError, match=r"thing 'worn' of worn-out \(no_such_module:thing\) cannot be loaded"
    ):
        registry.load("worn")
    with pytest.raises(UnknownNameError, match="did you mean 'worn'"):
        registry.load("wurn")


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (3, "cannot be called"),
        (lambda one, two: [], r"takes \(one, two\); it must take one argument, the View"),
        (lambda: 3, "what policy 'lambda' makes is 3, which cannot be called"),
    ],
)
def test_what_is_no_policy_is_refused(policy: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        own_policy(policy)


def test_settings_of_a_file_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    shutil.copyfile(HERE / "newcomers.py", path)
    with pytest.raises(UnknownNameError, match="unknown setting 'skap' of policy 'Patient'"):
        own_policy(f"{path}:Patient(skap=1)")
    with pytest.raises(ConfigError, match="skip is 0.5; it must be a whole number"):
        own_policy(f"{path}:last_first(skip=0.5)")
    with pytest.raises(ConfigError, match="is set up already"):
        own_policy(f"{path}:patience(skip=1)")
    assert own_policy(newcomers.Patient) == newcomers.Patient()


def test_a_file_that_raises_while_it_makes_a_policy_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def broken(depth=2):\n    raise ValueError('too deep')\n")
    with pytest.raises(ConfigError, match=r"mine\.py makes no policy: ValueError: too deep .*line 2\)"):
        own_policy(f"{tmp_path / 'mine.py'}:broken")


def test_a_view_with_a_default_is_still_the_view(tmp_path: Path) -> None:
    text = "def first(view=None):\n    return [view.assign(0, int(view.idle[0]))]\n"
    (tmp_path / "mine.py").write_text(text)
    policy = own_policy(f"{tmp_path / 'mine.py'}:first")
    assert policy.__name__ == "first"
