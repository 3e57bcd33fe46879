"""A scenario built in Python is the scenario of the file: equal values, complaints, and results."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

import eunomia
from eunomia import Assign, DnnModel, Layer, Model, View
from eunomia.core.errors import ConfigError, ModelError, UnknownNameError
from eunomia.hardware.types import load_type, type_names

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.glob("*.toml") if not path.name.startswith(("cluster_", "plan_")))


def rebuilt(table: dict[str, Any]) -> Model:
    """The calls that a user would make for a scenario file."""
    head = {key: table[key] for key in ("warmup_s", "seed", "load", "description") if key in table}
    model = Model(table["name"], table["duration_s"], **head)
    platform = dict(table["platform"])
    for entry in platform.pop("accelerators", []):
        model.add_accelerator(entry.get("type") or Path(entry["file"]), entry.get("count", 1))
    model.set_platform(**platform)
    for entry in table["tenant"]:
        rest = {key: value for key, value in entry.items() if key not in ("name", "models", "arrivals")}
        tenant = model.add_tenant(entry["name"], **rest)
        for network in entry.get("models", []):
            settings = {key: value for key, value in network.items() if key not in ("model", "onnx")}
            model.add_network(tenant, network.get("model") or Path(network["onnx"]), **settings)
        if "arrivals" in entry:
            model.set_arrivals(tenant, **entry["arrivals"])
    if "engine" in table:
        model.set_engine(**table["engine"])
    if "policy" in table:
        model.set_policy(table["policy"])
    if "compare" in table:
        compare = dict(table["compare"])
        model.set_policies(compare.pop("policies", []), **compare)
    for key, values in table.get("sweep", {}).items():
        model.vary(key, values)
    return model


def studio() -> Model:
    model = Model("studio", duration_s=0.2, seed=4)
    model.add_accelerator("simba", count=2)
    model.set_platform(dram_bandwidth_gb_s=24.0)
    gold = model.add_tenant("gold", weight=2.0)
    model.add_network(gold, "squeezenet", deadline_factor=3.0, slo={"hit_rate": 0.9})
    model.set_arrivals(gold, "poisson", rate_per_s=200.0)
    return model


def digest(result: Any) -> str:
    text = "".join(str(table.to_pylist()) for table in result.records.tables.values())
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_built_in_python_is_the_example(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)  # relative paths mean the same
    model = rebuilt(tomllib.loads(path.read_text(encoding="utf-8")))
    scenario = eunomia.load_scenario(path)
    assert model.scenario() == scenario
    again = rebuilt(tomllib.loads(model.to_toml()))
    assert again == model and again.scenario() == scenario


def test_results_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    model = studio()
    file = tmp_path / "studio.toml"
    file.write_text(model.to_toml(), encoding="utf-8")
    assert digest(model.run("edf")) == digest(eunomia.run(file, "edf"))
    assert (
        model.compare(["fcfs", "edf"], seeds=2).rows()
        == eunomia.compare(file, ["fcfs", "edf"], seeds=2).rows()
    )


def test_models_differ_where_their_scenarios_do() -> None:
    assert studio() == studio()
    other = studio()
    other.set_engine(late="drop")
    assert studio() != other


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda m: m.add_tenant("gold", wieght=2.0), "unknown key 'wieght'; did you mean 'weight'"),
        (lambda m: m.set_engine(late="never"), "engine.late"),
        (lambda m: m.set_platform(dram_bandwidth_gb_s=-1.0), "platform.dram_bandwidth_gb_s"),
        (lambda m: m.add_tenant("silver"), "give either models"),
    ],
)
def test_complaints_are_those_of_a_file(spoil: Any, sentence: str) -> None:
    model = studio()
    spoil(model)
    with pytest.raises(ConfigError) as said:
        model.scenario()
    assert sentence in str(said.value) and str(said.value).startswith("model 'studio': ")


def test_an_unknown_tenant_is_named_at_once() -> None:
    with pytest.raises(UnknownNameError, match="unknown tenant 'golden'; did you mean 'gold'"):
        studio().set_arrivals("golden", "poisson", rate_per_s=1.0)


def first_come(view: View) -> list[Assign]:
    """The first that waits on the first that is idle."""
    return [view.assign(0, int(view.idle[0]))]


def test_a_policy_function_and_a_name_are_compared() -> None:
    model = studio()
    model.set_policies(["edf", first_come], seeds=1)
    result = model.compare()
    assert result.policies == ("edf", "first_come") and not result.failures
    with pytest.raises(ConfigError, match="'first_come' is a Python object"):
        model.to_toml()


def mine(name: str = "mine") -> DnnModel:
    layers = tuple(
        Layer(f"fc{n}", "matmul", in_channels=256, out_channels=256, weight_elements=65536) for n in range(3)
    )
    return DnnModel(name, layers, ((0, 1), (0, 2)), "made up")


def test_a_network_of_ones_own_is_run_and_written() -> None:
    model = studio()
    model.add_network("gold", mine(), deadline_ms=5.0)
    assert {row["model"] for row in model.run("edf").pairs} == {"squeezenet", "mine"}
    again = eunomia.config.scenario_from(tomllib.loads(model.to_toml()))
    assert again == model.scenario()
    from eunomia.study.inference.demand import own_networks

    assert own_networks(again) == {"mine": mine()}
    model.add_network("gold", mine())  # the same one again
    with pytest.raises(ConfigError, match="another network is called 'mine'"):
        model.add_network("gold", DnnModel("mine", mine().layers, ((0, 1), (1, 2))))


def test_a_written_out_network_that_cannot_be_is_refused() -> None:
    table = tomllib.loads(studio().to_toml())
    layer = {"name": "a", "kind": "matmul", "groups": 0}
    table["network"] = [{"name": "mine", "layers": [layer]}]
    with pytest.raises(ModelError, match="groups = 0"):
        eunomia.run({**table, "tenant": [{**table["tenant"][0], "models": [{"model": "mine"}]}]})


@pytest.mark.parametrize("name", type_names())
def test_an_accelerator_type_passes_through_the_scenario(name: str) -> None:
    from eunomia.study.inference.machine import build_machine
    from eunomia.workload import zoo

    model = Model("one", duration_s=1.0)
    model.add_accelerator(load_type(name))
    model.set_platform(dram_bandwidth_gb_s=24.0)
    tenant = model.add_tenant("a", model_set="moca-light")
    assert tenant.name == "a"
    machine = build_machine(model.scenario().platform, [zoo.load("squeezenet")])
    by_name = {"accelerators": [{"type": name}], "dram_bandwidth_gb_s": 24.0}
    other = eunomia.Scenario.model_validate(
        {**model.scenario().model_dump(exclude_none=True), "platform": by_name}
    )
    wanted = build_machine(other.platform, [zoo.load("squeezenet")])
    assert machine.types == wanted.types and (machine.table.latency_s == wanted.table.latency_s).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.set_policies("edf"), "policies: 'edf' is one value; give a list"),
        (lambda m: m.vary("seed", 3), "values of 'seed': 3 is one value"),
        (lambda m: m.compare("edf"), "policies is the text 'edf'; give a list"),
        (lambda m: m.compare(["edf"], workers=0), "workers is 0"),
        (lambda m: m.compare(["edf"], worker=2), "unknown option 'worker'; did you mean 'workers'"),
        (lambda m: m.compare(["edf"], seeds="3"), "'3' was given for seeds"),
        (lambda m: m.run(seed="a"), "'a' was given for seeds"),
        (lambda m: (m.add_accelerator(3), m.run()), "accelerators"),
    ],
)
def test_a_wrong_argument_is_named(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(studio())


def test_a_network_cannot_take_the_name_of_a_built_in_one() -> None:
    model = studio()
    model.add_network(
        "gold", DnnModel("ResNet_50", (Layer("one", "matmul", in_channels=2, out_channels=2),), ())
    )
    with pytest.raises(ConfigError, match="'ResNet_50' has the name of a built-in network"):
        model.run("edf")


def test_a_baseline_that_was_not_compared_is_said() -> None:
    model = studio()
    model.set_policies(["edf", "fcfs"], baseline="sjf")
    assert "the baseline 'sjf' is none of the policies compared" in model.compare(seeds=1).summary()
