"""Settings chosen on validation traces, by name."""

import json

import pytest

from eunomia.core.errors import UnknownNameError
from eunomia.inference.policies import load_policy, policy_name
from eunomia.inference.policies.tuned import TUNED, tuned_name


def test_every_choice_loads_and_is_no_worse_than_the_default_on_validation() -> None:
    table = json.loads(TUNED.read_text())
    assert {"prema", "herald", "dream", "planaria", "moca", "edf", "edf_bytes"} <= table.keys()
    for family, entry in table.items():
        assert load_policy(f"{family}+tuned").name == load_policy(tuned_name(family)).name
        assert load_policy(entry["default"]) is not None
        assert entry["validation_hit_rate"] >= entry["default_validation_hit_rate"]
        assert entry["settings_tried"] <= 24


def test_names() -> None:
    assert policy_name("prema+tuned") == "prema+tuned"
    with pytest.raises(UnknownNameError, match="tuned policy 'predma'; did you mean 'prema'"):
        load_policy("predma+tuned")
