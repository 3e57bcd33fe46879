"""Scenarios: what is read, what is refused, and in which words."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.config import (
    Scenario,
    as_table,
    json_schema,
    load_scenario,
    scenario_from,
    to_json,
    to_toml,
    with_values,
)
from eunomia.config.overrides import apply_overrides, flatten, parse_override
from eunomia.config.server import server_from
from eunomia.core.errors import ConfigError

SAMPLE = """
name = "two tenants on a mixed NPU"
duration_s = 60.0
seed = 0

[platform]
accelerators = [{ type = "simba", count = 4 }, { type = "eyeriss", count = 4 }]
dram_bandwidth_gb_s = 32.0
contention = "proportional"

[[tenant]]
name = "gold"
models = [{ model = "resnet50", deadline = "qos_h", slo = { hit_rate = 0.95 } }]
arrivals = { process = "poisson", rate_per_s = 120.0 }

[[tenant]]
name = "chat"
models = [{ onnx = "models/encoder.onnx", deadline_ms = 40.0, slo = { hit_rate = 0.90 } }]
arrivals = { trace = "azure-llm", path = "azure_llm_2023_conv.csv", speedup = 8.0 }

[compare]
policies = ["fcfs", "edf", "edf-feasible-eft"]
seeds = 5
"""


def sample() -> dict[str, Any]:
    return tomllib.loads(SAMPLE)


def test_the_sample_of_the_architecture_is_read() -> None:
    scenario = scenario_from(sample())
    assert [t.name for t in scenario.tenant] == ["gold", "chat"]
    assert scenario.tenant[0].models is not None
    assert scenario.tenant[0].models[0].slo is not None
    assert scenario.tenant[0].models[0].slo.hit_rate == 0.95
    assert scenario.compare.seeds == 5


def test_toml_and_json_of_a_scenario_give_it_back() -> None:
    scenario = scenario_from(sample(), ["sweep.load=[0.5, 1.0]", "engine.late=drop", "load=0.9"])
    assert scenario_from(tomllib.loads(to_toml(scenario))) == scenario
    assert Scenario.model_validate_json(to_json(scenario)) == scenario


REFUSED = {  # override -> what the sentence must say
    "duration_s=-3": ["duration_s is -3", "greater than 0"],
    "duration_s=soon": ["duration_s is 'soon'", "a number"],
    "duration_s=inf": ["finite"],
    "seed=1.5": ["seed is 1.5", "whole number"],
    "seed=-1": ["seed is -1", "at least 0"],
    "platfrm.x=1": ["unknown key 'platfrm'", "did you mean 'platform'"],
    "platform.contention=maxmin": ["platform.contention", "did you mean 'max_min'"],
    "platform.contention=matrix": ["contention 'matrix' needs slowdowns"],
    "platform.slowdowns={}": ["either file", "or pairs"],
    "platform.slowdowns={pairs={a={b=0}}}": ["slowdowns.pairs.a.b is 0", "greater than 0"],
    "platform.slowdowns={pairs={}, missing='forest'}": ["slowdowns.missing", "factorised"],
    "platform.accelerators=[]": ["platform.accelerators", "at least 1"],
    "platform.preset=x": ["platform", "either preset"],
    "platform.accelerators=[{type='simba', count=0}]": ["platform.accelerators.0.count is 0", "at least 1"],
    "platform.dram_bandwidth_gb_s=0": ["platform.dram_bandwidth_gb_s is 0", "greater than 0"],
    "tenant.gold.arrivals.rate=3": [
        "tenant.gold.arrivals",
        "unknown key 'rate'",
        "did you mean 'rate_per_s'",
    ],
    "tenant.gold.arrivals.rate_per_s=-1": ["tenant.gold.arrivals.rate_per_s is -1", "greater than 0"],
    "tenant.gold.arrivals.process=poison": ["unknown process 'poison'", "did you mean 'poisson'"],
    "tenant.gold.arrivals={}": ["tenant.gold.arrivals", "give process ="],
    "tenant.gold.models=[]": ["tenant.gold.models", "at least 1"],
    "tenant.gold.models.0.deadline_ms=3": ["tenant.gold.models.0", "contradict"],
    "tenant.gold.models.0.onnx=x.onnx": ["either model", "or onnx"],
    "tenant.gold.models.0.deadline=qos_x": ["tenant.gold.models.0.deadline", "qos_h"],
    "tenant.chat.models.0.deadline_ms=-40": ["tenant.chat.models.0.deadline_ms is -40", "greater than 0"],
    "tenant.gold.models.0.slo.hit_rate=1.2": ["slo.hit_rate is 1.2", "at most 1"],
    "tenant.gold.models.0.slo={}": ["tenant.gold.models.0.slo", "one indicator", "latency_p95_ms"],
    "tenant.gold.weight=true": ["tenant.gold.weight is true", "a number"],
    "tenant.chat.name=gold": ["two tenants are called 'gold'"],
    "warmup_s=60": ["warmup_s is 60", "nothing would be measured"],
    "engine.late=dropp": ["engine.late", "did you mean 'drop'"],
    "engine.period_s=0": ["engine.period_s is 0", "greater than 0"],
    "engine.estimator.alpha=2": ["engine.estimator.alpha is 2", "at most 1"],
    "compare.seeds=0": ["compare.seeds is 0", "at least 1"],
    "compare.policies=[]": ["compare.policies", "at least 1"],
    "sweep.load=1": ["sweep.load is 1", "a list"],
    "tenant=1": ["tenant is 1", "a list"],
    "name=''": ["name is ''", "must not be empty"],
}


@pytest.mark.parametrize("override", REFUSED)
def test_what_is_wrong_is_said_with_key_and_value(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario_from(sample(), [override], source="lab.toml")
    message = str(caught.value)
    assert message.startswith("lab.toml: ") and len(message.splitlines()) == 1
    for words in REFUSED[override]:
        assert words in message


@pytest.mark.parametrize("key", ["name", "duration_s", "platform", "tenant"])
def test_a_missing_key_is_named(key: str) -> None:
    data = sample()
    del data[key]
    with pytest.raises(ConfigError, match=f"lacks the key '{key}'"):
        scenario_from(data)


def test_several_complaints_come_together() -> None:
    with pytest.raises(ConfigError) as caught:
        scenario_from(sample(), ["duration_s=-1", "engine.late=never"])
    assert len(str(caught.value).splitlines()) == 2


def test_overrides_reach_lists_by_number_and_by_name() -> None:
    scenario = scenario_from(
        sample(), ["tenant.0.weight=2", "tenant.chat.weight=3.5", "compare.policies.1=llf"]
    )
    assert [t.weight for t in scenario.tenant] == [2.0, 3.5]
    assert scenario.compare.policies == ["fcfs", "llf", "edf-feasible-eft"]


def test_an_override_of_nobody_names_who_there_is() -> None:
    with pytest.raises(ConfigError, match=r"no entry 'silver'.*gold, chat"):
        scenario_from(sample(), ["tenant.silver.weight=2"])
    with pytest.raises(ConfigError, match="not a table"):
        scenario_from(sample(), ["duration_s.x=2"])
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        scenario_from(sample(), ["duration_s"])


def test_values_of_overrides_are_toml_and_bare_words_are_text() -> None:
    assert parse_override("a.b=[1, 2]") == ("a.b", [1, 2])
    assert parse_override("a=edf+f") == ("a", "edf+f")
    assert parse_override("a='x=y'") == ("a", "x=y")


keys = st.text("abc", min_size=1, max_size=3)


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=8))
def test_flattened_keys_are_the_paths_of_overrides(data: Any) -> None:
    table = data if isinstance(data, dict) else {"a": data}
    flat = flatten(table)
    before = copy.deepcopy(table)
    changed = apply_overrides(table, [(path, "new") for path in flat])
    assert set(flatten(changed)) == set(flat) and set(flatten(changed).values()) <= {"new"}
    assert table == before


def test_with_values_validates_again() -> None:
    scenario = scenario_from(sample())
    assert with_values(scenario, {"tenant.gold.arrivals.rate_per_s": 5.0, "load": 0.7}).load == 0.7
    with pytest.raises(ConfigError, match="load is -1"):
        with_values(scenario, {"load": -1})


def test_files_are_meant_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(SAMPLE)
    scenario = load_scenario(tmp_path / "lab.toml")
    assert scenario.tenant[1].models is not None
    assert scenario.tenant[1].models[0].onnx == str((tmp_path / "models/encoder.onnx").resolve())
    assert as_table(scenario)["tenant"][1]["arrivals"]["path"] == str(
        (tmp_path / "azure_llm_2023_conv.csv").resolve()
    )


def test_a_policy_of_ones_own_is_meant_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From anywhere; its text stays as it is where the file lies in the working directory."""
    (tmp_path / "mine.py").write_text("def rule(view): return []\n")
    overrides = ["policy=mine.py:rule", "policy=edf+f"]
    monkeypatch.chdir("/")
    needed: Any = {name: [{"name": "a"}] for name in ("device", "tenant")}
    needed |= {"network": [{"name": "a", "onnx": "a"}], "anonymous": True}
    found = [server_from(needed, [each], "server.toml", tmp_path).policy for each in overrides]
    assert found == [f"{tmp_path.resolve() / 'mine.py'}:rule", "edf+f"]
    monkeypatch.chdir(tmp_path)
    assert server_from(needed, overrides[:1], "server.toml", tmp_path).policy == "mine.py:rule"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"name = ", "not valid TOML"),
        (b"a = " + 5000 * b"[" + 5000 * b"]", "too deep in each other"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "lacks the key 'name'"),
        (b"name = 'a'\nname = 'b'", "not valid TOML"),
    ],
)
def test_unreadable_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "lab.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        load_scenario(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the scenario .*nowhere\.toml: No such file"):
        load_scenario(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match="cannot read the scenario"):
        load_scenario(tmp_path)


def test_yaml_is_read_where_pyyaml_is_there(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump(sample()))
    assert load_scenario(tmp_path / "lab.yaml").name == "two tenants on a mixed NPU"
    (tmp_path / "list.yaml").write_text("- 1\n- 2\n")
    with pytest.raises(ConfigError, match="holds no table"):
        load_scenario(tmp_path / "list.yaml")


def test_the_schema_describes_every_section() -> None:
    schema = json_schema()
    assert set(schema["required"]) == {"name", "duration_s", "platform", "tenant"}
    assert "PoissonConfig" in schema["$defs"]
