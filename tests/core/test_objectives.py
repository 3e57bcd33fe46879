"""Objectives are listed once; rules, lookahead, training and tuning take their names from that list."""

from __future__ import annotations

from typing import get_args

import pytest

from eunomia.config.training import TrainingConfig
from eunomia.contract.objectives import OBJECTIVES, TENANT, TenantObjective, mixture_of
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.lookahead import objective as searched
from eunomia.inference.policies import POLICIES, tenant_gap
from eunomia.learning import objectives as trained
from eunomia.study.inference import tuning


def test_every_objective_is_pursued_and_none_is_unlisted() -> None:
    assert set(trained.OBJECTIVES) | set(tuning.OBJECTIVES) == set(OBJECTIVES)
    assert {name for name, found in OBJECTIVES.items() if found.rule} == set(TENANT)


def test_the_lookahead_numbers_its_objectives_in_the_order_of_the_list() -> None:
    numbers = (searched.HITS, searched.ATTAINMENT, searched.SHORTFALL, searched.MAX_MIN)
    assert [searched.OBJECTIVES[n] for n in numbers] == ["hits", "attainment", "shortfall", "max_min"]


def test_each_tenant_objective_has_a_rule_and_a_mixture_that_training_knows() -> None:
    assert set(tenant_gap.RULE_FOR) == set(trained.PROMISED) == set(TENANT)
    for name in TENANT:
        assert OBJECTIVES[name].rule in POLICIES
        assert OBJECTIVES[name].rule in tenant_gap.tenant_rule(name).resolved.name
        trained.check_objective(trained.PROMISED[name])
    assert get_args(TenantObjective) == TENANT and "promise" in TrainingConfig.model_fields


def test_a_mixture_counts_each_promise_as_it_is_climbed() -> None:
    assert dict(mixture_of("attainment", trained.OBJECTIVES)) == trained.PROMISED["attainment"]
    mixed = dict(mixture_of("0.5*shortfall + 2*hit_rate", trained.OBJECTIVES))
    assert mixed == pytest.approx({"shortfall": 0.5, "hit_rate": 0.5 * 0.05 + 2.0})
    assert mixture_of("fairness", trained.OBJECTIVES) == (("fairness", 1.0),)
    with pytest.raises(UnknownNameError, match="unknown promise 'most'"):
        mixture_of("0.5*shortfall+most", trained.OBJECTIVES)
    for weight in ("x", "inf", ""):
        with pytest.raises(ConfigError, match=f"weight of fairness is '{weight}'; give a number"):
            mixture_of(f"{weight}*fairness", trained.OBJECTIVES)
