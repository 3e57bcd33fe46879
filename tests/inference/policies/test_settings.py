"""Settings in the names of policies."""

import math

import pytest

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.policies import load_policy, policy_name
from eunomia.inference.policies.choosing import GATE
from eunomia.inference.policies.settings import call_name, split_call


def test_a_name_with_settings_is_split_and_written_in_one_way() -> None:
    assert split_call("Herald(theta=0.2, metric=energy)+g0.9") == (
        "herald",
        {"theta": 0.2, "metric": "energy", "gate": 0.9},
    )
    assert (
        call_name("herald", {"theta": 0.2, "metric": "energy", "gate": 0.9})
        == "herald(metric=energy,theta=0.2)+g0.9"
    )
    assert policy_name("herald(theta=0.20,metric=energy)") == "herald(metric=energy,theta=0.2)"
    assert split_call("edf+f+eft") is None


def test_settings_reach_the_scheduler() -> None:
    assert load_policy("herald(theta=0.2,breadth_first=true)+g0.9").parameters[:3] == (0.2, 0.0, 1.0)
    assert load_policy("herald(theta=0.2)+g0.9").parameters[GATE] == 0.9
    assert load_policy("dream(window=50)").parameters[4] == 50.0
    assert load_policy("triage(lost=0.4,base=sjf)").parameters == (0.02, 0.4)
    assert load_policy("triage(lost=0.4,base=sjf)").name == "triage_sjf+f+eft"
    assert load_policy("shift(kappa=2)+g0.9").gate == 0.9
    assert load_policy("prema(place=eft)").name == "prema+eft"
    assert load_policy("herald()").parameters[GATE] == math.inf


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("herald(theta)", "write key=value"),
        ("herald(theta=1,theta=2)", "sets theta twice"),
        ("herald(gate=0.8)+g0.9", "two gates"),
        ("herald(theta=fast)", "theta is fast; it must be like 0.5"),
        ("herald(metric=3)", "metric is 3; it must be like latency"),
        ("dream(alpha=nan)", "alpha is nan; it must be a number such as 50"),
        ("dream(window=1.5)", "window is 1.5; it must be a whole number"),
        ("magma(jobs=inf)", "jobs is inf; it must be a whole number"),
        (
            "edf+g0",
            r"policy 'edf\+g0': bandwidth gate is 0.0; it must be positive, such as 0.9, or be left out",
        ),
        ("prema+g0", r"policy 'prema\+g0': bandwidth gate is 0.0; it must be positive"),
        ("magma+g0", r"policy 'magma\+g0': bandwidth gate is 0.0; it must be positive"),
        ("herald(theta=-1)", r"policy 'herald\(theta=-1\)': Herald's theta is -1.0; it must be at least 0"),
    ],
)
def test_bad_settings_are_named(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_policy(name)


def test_unknown_settings_and_schedulers_are_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'theta'"):
        load_policy("herald(teta=1)")
    with pytest.raises(UnknownNameError, match="policy with settings"):
        load_policy("edf(theta=1)")
