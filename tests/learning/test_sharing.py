"""What a start costs under each way of sharing: against the engine's reference, and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.model import Demand
from eunomia.inference.policies import sharing
from eunomia.learning.observation import table
from eunomia.learning.policy.learned import WITHOUT_SHARING

DEMANDS = st.lists(st.one_of(st.just(0.0), st.floats(0.01, 8.0)), min_size=1, max_size=8)


def compiled_rates(way: str, demand: list[float], extra: float, bandwidth: float) -> np.ndarray:
    """As the policy computes them: one rate per accelerator, and that of the layer about to start."""
    found = np.full(len(demand) + 1, np.nan)
    sharing.rates(sharing.WAYS.index(way), np.array(demand), extra, bandwidth, found)
    return found


def described(way: str, demand: list[float], extra: float, bandwidth: float) -> dict[str, float]:
    """Share features by name."""
    number, running, scratch = sharing.WAYS.index(way), np.array(demand), np.empty(len(demand) + 1)
    x = np.full(len(table.SHARE), np.nan)
    standing = sharing.lost_work(number, running, bandwidth, scratch)
    sharing.describe_share(number, running, standing, extra, bandwidth, scratch, x)
    return dict(zip(table.SHARE, x.tolist(), strict=True))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sharing.WAYS), DEMANDS, st.floats(0.0, 8.0), st.floats(0.5, 20.0))
def test_rates_are_those_of_the_engine_at_equal_urgencies(
    way: str, demand: list[float], extra: float, bandwidth: float
) -> None:
    running = [Demand(b, 1.0, 1.0, 0.0, b) for b in (*demand, extra)]
    expected = CONTENTION[way].plain(running, bandwidth, len(running))
    asks = (
        np.array([*demand, extra]) > 0.0
    )  # what asks for nothing counts as whole, whatever the mode says of it
    found = compiled_rates(way, demand, extra, bandwidth)
    np.testing.assert_allclose(found[asks], np.array(expected)[asks], rtol=1e-9)
    assert (found[~asks] == 1.0).all()


@pytest.mark.parametrize(
    ("way", "own", "others"),
    # B = 4, one layer of demand 4 runs at rate 1, one of demand 1 would start. proportional: both at 4/5. max_min: the
    # small one is met, 3 are left for the other. weighted: 1 too much; 1/5 of it off the large, 4/5 off the small,
    # which keeps a quarter: 3.8 + 0.25 scaled by 4 / 4.05.
    [
        ("proportional", 0.2, 0.2),
        ("max_min", 0.0, 0.25),
        ("weighted", 1.0 - 1.0 / 4.05, 1.0 - 3.8 / 4.05),
    ],
)
def test_the_price_of_a_start_by_hand(way: str, own: float, others: float) -> None:
    x = described(way, [4.0, 0.0], 1.0, 4.0)
    assert x["own_loss"] == pytest.approx(own) and x["others_loss"] == pytest.approx(others)
    assert x["standing_loss"] == 0.0
    assert (x["even"], x["cut"]) == (float(way == "max_min"), float(way == "weighted"))


def test_what_is_lost_before_the_start_is_told_apart_from_what_it_takes() -> None:
    x = described("proportional", [4.0, 4.0], 8.0, 4.0)  # rates 1/2 and 1/2 before, 1/4 each with it
    assert (x["standing_loss"], x["others_loss"], x["own_loss"]) == (1.0, 0.5, 0.75)


def test_nothing_is_lost_where_bandwidth_suffices() -> None:
    for way in sharing.WAYS:
        x = described(way, [1.0, 0.0, 2.0], 1.0, np.inf)
        assert x["own_loss"] == x["others_loss"] == x["standing_loss"] == 0.0


def test_every_contention_mode_in_which_something_is_shared_has_a_way() -> None:
    assert {*sharing.WAY_OF, *WITHOUT_SHARING} == set(CONTENTION)
    assert set(sharing.WAY_OF.values()) == set(sharing.WAYS)
