"""The workspace of one lookahead: a record of counters and settings beside the engine's own, and of where all stands.

The compiled policy finds it as a block of the View's SYSTEM record; from it the engine's live state, the snapshot and
the trial state are reached. All three are KERNEL records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import array_of, block_record, call_at, item_at, record_of, table_fields
from eunomia.inference.kernel.layout import INDEX, KERNEL

Workspace = Any  # a WORKSPACE record
BLOCK = 7  # of the SYSTEM record: the workspace; there is none where no engine is behind the View

RULE = np.dtype(  # one rule of the portfolio
    [
        ("order", "i8"),
        ("place", "i8"),
        ("feasible", "i8"),
        ("gate", "f8"),
        ("learned", "i8"),  # 1 = not a rule: the learned policy (learned.py)
        ("cost", "i8"),  # of a simulated layer end, in those of a rule
        ("tried", "i8"),  # in this round of a standing plan
    ],
    align=True,
)

PAIR_STATE = np.dtype(  # what is known of a (tenant, model) pair, and what a rollout predicts for it
    [
        ("arrived", "i8"),  # requests seen so far
        ("relative_deadline_s", "f8"),  # of the last one seen
        ("hits", "i8"),  # in this rollout
        ("misses", "i8"),
        ("good", "i8"),  # in its SLO window, as the snapshot was taken
        ("counted", "i8"),
        ("target", "f8"),  # hit rate promised; nan = none
    ],
    align=True,
)

LEVEL = np.dtype(  # per request
    [
        ("value", "i8"),  # FIRST, NORMAL or LAST
        ("lost", "i8"),  # 1 = the best plan so far loses it
        ("tried", "i8"),  # moves of this round of a standing plan that are done, one bit each
        ("lost_now", "i8"),  # 1 = the rollout under way loses it
    ]
)
FIRST, NORMAL, LAST = -1, 0, 1

ENTRY = np.dtype(  # of the agenda: a waiting sub-job of the rollout
    [("level", "i8"), ("key", "f8"), ("sequence", "i8"), ("node", "i8")], align=True
)

ASKED = np.dtype(  # of a request, as a learned policy sees it: what stays the same in all rollouts from one snapshot
    [
        ("request", "i8"),
        ("snapshot", "i8"),  # number of the snapshot for which this was computed
        ("score", "f8"),  # terms of the score that no time changes
        ("margin", "f8"),  # terms of the start margin that no time changes
    ],
    align=True,
)

STANDING = np.dtype(  # of a waiting sub-job, as a learned policy sees it
    [
        # as it became ready
        ("due_s", "f8"),
        ("path_s", "f8"),
        ("work_s", "f8"),
        ("bytes_s", "f8"),  # remaining traffic at full bandwidth
        ("iso_s", "f8"),
        ("layer_s", "f8"),  # iso / layers
        ("last_s", "f8"),  # end of its last layer
        ("log_work", "f8"),
        ("log_cost", "f8"),
        ("linear_s", "f8"),  # terms of the score that are divided by the mean isolated time, as of time 0
        ("fixed", "f8"),  # terms of the score that stay while it waits
        ("fixed_margin", "f8"),  # terms of the start margin that stay while it waits
        ("level", "i8"),
        ("sequence", "i8"),
        # as of its last turn
        ("score", "f8"),  # all but the linear terms
        ("margin", "f8"),  # terms of the start margin that depend on the sub-job alone
        ("inverse_s", "f8"),  # 1 / (work + layer)
        ("crowded", "i8"),
        # as of now
        ("counts", "i8"),  # 1 = it stands for its request
        ("held", "i8"),  # it was held since its last turn
        ("held_margin", "f8"),  # the start margin then
        ("held_share", "f8"),  # demand over bandwidth then
    ],
    align=True,
)

FIXED = np.dtype(  # terms of one layer on one accelerator type that never change
    [("place", "f8"), ("start", "f8")], align=True
)
AHEAD = (
    np.dtype(  # of one layer, with all after it still to come: logarithms of work and cost, and terms of both
        [("log_work", "f8"), ("log_cost", "f8"), ("score", "f8"), ("margin", "f8")], align=True
    )
)
NUMBER = np.dtype([("value", "f8")])
LEFT = np.dtype(  # of a request: share of the platform's time (bound.py)
    [
        ("known", "f8"),  # that it must still cost, in the snapshot
        ("now", "f8"),  # the same in the rollout under way
        ("spent", "f8"),  # that it has cost in the rollout under way
        ("wasted", "f8"),  # the same in that of the best plan so far
    ]
)

ARRAYS: dict[str, np.dtype[np.void]] = {
    "portfolio": RULE,
    "pairs": PAIR_STATE,
    "levels": LEVEL,  # (requests + futures,) the plan in force
    "planned": LEVEL,  # the plan being made
    "agenda": ENTRY,
    "least": NUMBER,  # (layers of all models,) least share of the platform's time (bound.py)
    "left": LEFT,  # (slots,)
    "worth": NUMBER,  # of features of the state, learned (price.py)
    # of a learned policy, empty without one
    "asked": ASKED,  # (slots,)
    "standing": STANDING,  # (nodes,)
    "fixed": FIXED,  # (layers of all models, types)
    "ahead": AHEAD,  # (layers of all models,)
    "weights": NUMBER,  # learned.py
    "lane_demand": NUMBER,  # (accelerators,) scratch
    "rates": NUMBER,  # (accelerators + 1 + share features,) scratch
    "first_free": INDEX,  # (types,) the busy accelerator that is free first; -1 = one is idle, or there is none
}

STATES = ("live", "snapshot", "trial")
WORKSPACE = np.dtype(
    table_fields([*STATES, *ARRAYS])
    + [
        ("num_rules", "i8"),
        ("num_requests", "i8"),
        ("num_rows", "i8"),  # layers of all models
        ("num_pairs", "i8"),
        ("most_known", "i8"),  # a snapshot that holds so many requests takes in only those that run
        ("futures", "i8"),  # sampled futures per deliberation
        ("foresee", "i8"),  # 1 = the one future is the true one
        ("future_capacity", "i8"),  # arrivals per future
        ("singles", "i8"),  # single candidates are tried
        ("objective", "i8"),
        ("learning", "i8"),  # estimates change
        ("refuse", "i8"),  # hopeless requests wait while another can still be on time
        ("charged", "i8"),  # a standing plan; corrections take effect after the time that they took
        ("slice_rollouts", "f8"),  # length of a correction, in rollouts of the plan in force
        ("budget", "i8"),  # simulated layer ends per deliberation or slice; 0 = no limit
        ("horizon_s", "f8"),
        ("unit_s", "f8"),  # time that one simulated layer end stands for
        ("snapshot_s", "f8"),  # time of a deliberation before its first rollout
        ("price", "f8"),  # of the work of the largest request, in hits
        ("price_of", "i8"),  # or of another request, or as was learned (price.py)
        ("price_per_s", "f8"),  # the same per second of the whole platform
        ("margin", "f8"),  # a change must promise more than this
        # state of the policy
        ("rule", "i8"),  # in force
        ("planned_rule", "i8"),
        ("seen", "i8"),  # arrivals at the last deliberation
        ("seen_open", "i8"),
        ("busy", "i8"),  # the planner is at work on a slice
        ("effective_s", "f8"),  # when what it finds will be in force
        ("moves_left", "i8"),  # the round is not complete
        ("improved", "i8"),  # something in this round has helped
        ("base_due", "i8"),  # the base is to be compared with the plan in force
        ("usual_rollout", "f8"),  # simulated layer ends of a rollout of the plan in force, running mean
        ("usual_slice", "f8"),  # of a slice
        # of the deliberation under way
        ("known", "i8"),  # requests in the snapshot
        ("used", "i8"),  # layer ends simulated
        ("limit", "i8"),  # of those; 0 = none
        ("future_count", "i8"),  # arrivals of the longest sampled future
        ("drawn", "i8"),  # deliberations so far: stream of the sampled futures
        ("until_s", "f8"),  # end of the rollouts
        ("misses", "i8"),  # requests that this rollout has lost
        ("most_ends", "i8"),  # it is cut off when it has simulated as many layer ends
        ("entries", "i8"),  # of the agenda
        ("dynamic", "i8"),  # its keys change with time
        ("late_s", "f8"),  # before this, nothing in it is hopeless
        ("learner_at", "u8"),  # address of the learned policy's machine code; 0 = none
        ("snapshots", "i8"),  # so far
        ("hopeless", "i8"),  # waiting requests that the snapshot left out as lost
        ("hopeless_iso_s", "f8"),  # their isolated times, and mean layers, summed
        ("hopeless_layer_s", "f8"),
        ("opened", "i8"),  # the learned policy has looked at what waits in this rollout
        ("turn", "i8"),  # whose terms are computed anew next
        ("scale_s", "f8"),  # mean isolated time of what waits
        ("layer_s", "f8"),  # mean layer of what waits
        ("log_scale", "f8"),
        ("overall", "f8"),  # terms of the start margin that depend on the platform alone
        ("slow", "f8"),  # max(1, D / B), until something starts
        ("standing", "f8"),  # what contention takes from what runs, until something starts
        ("hold", "i8"),  # this rollout starts nothing before the next event
        ("bounded", "i8"),  # 1 = rollouts are cut off by bound.py
        ("largest_s", "f8"),  # work of the largest request seen, and of a mean one: seconds of the platform
        ("mean_s", "f8"),
        ("left_s", "f8"),  # that all requests of the snapshot must still cost
        ("left_loss", "f8"),  # the same in hits
        ("hopes", "f8"),  # what saving the requests that the best plan loses would gain, in hits
        ("spent", "f8"),  # share of the platform's time that the rollout has cost
        ("rest", "f8"),  # the same in the rollout under way
        ("loss", "f8"),  # those, and the price of the work done
        ("allowed", "f8"),  # it is cut off when it has lost as much
        # statistics
        ("deliberations", "i8"),
        ("rollouts", "i8"),
        ("layer_ends", "i8"),
        ("changes", "i8"),
        ("most", "i8"),  # layer ends of the longest deliberation
    ],
    align=True,
)
WORKSPACE_TYPE = from_dtype(WORKSPACE)
workspace_of = block_record(SYSTEM, BLOCK, WORKSPACE)
live_of, snapshot_of, trial_of = (record_of(WORKSPACE, name, KERNEL) for name in STATES)


def _at(name: str) -> Callable[[Workspace, int], Any]:
    return item_at(WORKSPACE, name, ARRAYS[name])


rule_at = _at("portfolio")
pair_state_at = _at("pairs")
level_at = _at("levels")
planned_at = _at("planned")
entry_at = _at("agenda")
least_at = _at("least")
left_at = _at("left")
worth_at = _at("worth")
asked_at = _at("asked")
standing_at = _at("standing")
fixed_at = _at("fixed")
ahead_at = _at("ahead")
weight_at = _at("weights")
lane_demand_of = array_of(WORKSPACE, "lane_demand", NUMBER, np.float64)
rates_of = array_of(WORKSPACE, "rates", NUMBER, np.float64)
first_free_at = _at("first_free")
call_learner = call_at(WORKSPACE, "learner_at")
