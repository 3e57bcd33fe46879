"""Memory layout of the kernel: records for slots, nodes, lanes, costs, and the one that points to them all.

A *slot* is a live request, a *node* a sub-job that waits or runs, both pooled; a *lane* is an accelerator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import ACCELERATOR, READY, SYSTEM
from eunomia.core.addresses import table_fields

Records = npt.NDArray[Any]

FREE, WAITING, RUNNING, DEAD = 0, 1, 2, 3  # states of a node
HIT, LATE, DROPPED, UNFINISHED = 0, 1, 2, 3  # outcomes of a request
OUTCOMES = ("hit", "late", "dropped", "unfinished")

SLOT = np.dtype(
    [
        ("request", "i8"),
        ("model", "i8"),
        ("pair", "i8"),
        ("row0", "i8"),
        ("layers", "i8"),
        ("done", "i8"),
        ("running", "i8"),  # layers running now
        ("first_waiting", "i8"),  # list of its waiting nodes
        ("gone", "i8"),  # dropped; waits for its running layers
        ("generation", "i8"),
        ("last_accelerator", "i8"),
        ("has_priority", "i8"),  # periodic: a policy gave one
        ("arrival_s", "f8"),
        ("deadline_s", "f8"),
        ("work_best_s", "f8"),
        ("work_mean_s", "f8"),
        ("bytes_left", "f8"),
        ("attained_s", "f8"),
        ("last_run_s", "f8"),
        ("running_since_s", "f8"),
        ("running_s", "f8"),
        ("start_s", "f8"),
        ("work_s", "f8"),
        ("stretch_s", "f8"),
        ("switch_s", "f8"),
        ("energy_j", "f8"),
        ("given_priority", "f8"),
    ],
    align=True,
)

NODE = np.dtype(
    [
        ("key", "f8"),
        ("sequence", "i8"),
        ("slot", "i8"),
        ("state", "i8"),
        ("child", "i8"),  # pairing heap
        ("sibling", "i8"),
        ("previous", "i8"),  # waiting nodes of the same slot
        ("next", "i8"),
        ("place", "i8"),  # index in the dense waiting list; -1 = not kept
        ("bound", "i8"),  # accelerator whose queue it is in; -1 = none
        ("bound_s", "f8"),  # estimated time that it adds to that queue
    ],
    align=True,
)

LANE = np.dtype(
    [
        ("node", "i8"),  # -1 = idle
        ("type", "i8"),
        ("row", "i8"),
        ("model", "i8"),
        ("end_s", "f8"),  # when its layer will end if rates stay; inf = idle
        ("rate", "f8"),
        ("demand", "f8"),  # true
        ("total_s", "f8"),  # work + switch + decision
        ("work_s", "f8"),  # isolated work
        ("switch_s", "f8"),
        ("charge_s", "f8"),  # decision time
        ("estimate_s", "f8"),  # c' + switch + decision
        ("start_s", "f8"),
        ("weight", "f8"),
        ("grant", "f8"),
        ("decision", "i8"),
        ("isolated_sum_s", "f8"),  # over completed layers
    ],
    align=True,
)

TIMER = np.dtype(
    [("time_s", "f8"), ("request", "i8"), ("layer", "i8"), ("slot", "i8"), ("generation", "i8")], align=True
)

RESULT = np.dtype(
    [
        ("arrival_s", "f8"),
        ("deadline_s", "f8"),
        ("start_s", "f8"),
        ("finish_s", "f8"),
        ("outcome", "i8"),
        ("running_s", "f8"),
        ("work_s", "f8"),
        ("stretch_s", "f8"),
        ("switch_s", "f8"),
        ("energy_j", "f8"),
    ],
    align=True,
)

SUBJOB = np.dtype(
    [
        ("request", "i8"),
        ("layer", "i8"),
        ("accelerator", "i8"),
        ("ready_s", "f8"),
        ("start_s", "f8"),
        ("end_s", "f8"),
        ("work_s", "f8"),
        ("switch_s", "f8"),
        ("key", "f8"),
        ("decision", "i8"),
    ],
    align=True,
)

DECISION = np.dtype(
    [
        ("time_s", "f8"),
        *[(name, "i8") for name in ("request", "layer", "accelerator", "waiting")],
        ("demand_bytes_s", "f8"),
    ],
    align=True,
)

PAIR = np.dtype(  # a (tenant, model) agreement, and its service-level indicator as requests end
    [
        ("model", "i8"),
        ("tenant", "i8"),
        ("weight", "f8"),
        ("slo_kind", "i8"),
        ("slo_target", "f8"),
        ("slo_percentile", "f8"),
        ("slo_window", "i8"),
        ("slo_window_s", "f8"),
        ("count", "i8"),  # outcomes in the window
        ("head", "i8"),  # ring position of the next outcome
        ("good", "i8"),  # hits (hit_rate) or drops (drop_rate) in the window
        ("sli", "f8"),  # nan = no data
        ("gap", "f8"),
        ("first_heap", "i8"),  # keyed loop: heaps of its sub-jobs; their number; what their keys read
        ("heaps", "i8"),
        ("keyed_count", "i8"),
        ("keyed_gap", "f8"),
        ("keyed_rank", "f8"),  # what comes before deadlines, if ``ranked``
        ("ranked", "i8"),
    ],
    align=True,
)

COST = np.dtype(  # one layer on one accelerator type; fields as in problem.Costs
    [
        ("latency_s", "f8"),
        ("floor_s", "f8"),
        ("dram_bytes", "f8"),
        ("demand_bytes_s", "f8"),
        ("energy_j", "f8"),
        ("switch_s", "f8"),
        ("estimate_s", "f8"),
        ("estimate_demand", "f8"),
    ],
    align=True,
)

ROW = np.dtype(  # one layer; fields as in problem.Graph
    [
        ("indegree", "i8"),
        ("successor_start", "i8"),
        ("successor_end", "i8"),
        ("heap", "i8"),  # where its waiting sub-jobs are kept; keyed loop: counted from the pair's first
        ("follower", "i8"),  # row of its only successor, if that waits for it alone; -1 = none
        ("best_s", "f8"),
        ("mean_s", "f8"),
        ("path_best_s", "f8"),
        ("path_mean_s", "f8"),
        ("row_bytes", "f8"),
    ],
    align=True,
)

MODEL = np.dtype(
    [("offset", "i8"), ("layers", "i8"), ("iso_best_s", "f8"), ("iso_mean_s", "f8"), ("bytes", "f8")],
    align=True,
)

JOB = np.dtype(
    [
        ("pair", "i8"),
        ("model", "i8"),
        ("arrival_s", "f8"),
        ("relative_deadline_s", "f8"),
        ("priority", "f8"),
        *[(name, "i8") for name in ("deferrable", "next")],
    ],
    align=True,
)

HEAP = np.dtype(  # waiting sub-jobs that all get the same answer from the placement rule
    [
        ("on_time", "i8"),  # roots; -1 = empty
        ("late", "i8"),
        ("stands", "i8"),  # > 0: among the standing ones; of its first node a copy of what ranks it:
        ("marked", "i8"),  # 1 = the copy must be made anew
        ("node", "i8"),
        ("tier", "i8"),  # 1 = late
        ("rank", "f8"),  # of its pair, where that comes before the key
        ("key", "f8"),
        ("sequence", "i8"),
        ("value", "f8"),  # its key as things stand, where what keeps it in order is another
    ],
    align=True,
)

# A type of accelerators: its least idle one (-1 = none); 0 with one, else inf; inf with one, else when one is free.
# ``move_s``: of a request that leaves it. Of what is drawn by lot: where it stands in draws, and how many.
TYPE = np.dtype(
    [(name, "i8") for name in ("idle", "first", "lanes")]
    + [(name, "f8") for name in ("start_s", "free_s", "jitter", "move_s")]
    + [(f"{drawn}_{what}", "i8") for drawn in ("factor", "switch", "move") for what in ("at", "draws")],
    align=True,
)

ANSWER = np.dtype([("index", "i8"), ("accelerator", "i8")], align=True)
INDEX = np.dtype([("value", "i8")])
NUMBER = np.dtype([("value", "f8")])

ARRAYS: dict[str, np.dtype[Any]] = {  # every array of the kernel: name -> element
    "system": SYSTEM,
    "costs": COST,  # (rows, types)
    "rows": ROW,
    "successors": INDEX,
    "models": MODEL,
    "slowdowns": NUMBER,  # by network, as Slowdowns.factors; none unless the contention model reads them
    "jobs": JOB,
    "pairs": PAIR,
    "ring": NUMBER,  # (pairs, ring_length) outcomes or responses or finish times
    "ranked": NUMBER,  # (pairs, ring_length) responses in ascending order
    "results": RESULT,
    "lanes": LANE,
    "ends": NUMBER,  # sprint: end of the running layer of each lane
    "accelerators": ACCELERATOR,
    "types": TYPE,
    "draws": NUMBER,  # of equal chance
    "by_type": INDEX,  # accelerators, type by type
    "heaps": HEAP,
    "standing": INDEX,  # heaps with nodes, the one that goes first at the end
    "heap_estimate": NUMBER,  # (heaps, wide_types) c' of the rows of each heap
    "candidates": INDEX,  # standing heaps that may give the next sub-job
    "marked": INDEX,  # heaps whose first node has changed
    "think": TIMER,  # closed-loop requests in their think time: binary heap
    "slots": SLOT,
    "pending": INDEX,  # (slots, num_layers) predecessors left; -1 = handed out, -2 = done
    "nodes": NODE,
    "ready": READY,  # facts of the sub-job in each node
    "waiting": INDEX,  # dense list of waiting nodes
    "fresh": INDEX,  # sub-jobs that have just become ready
    "timers": TIMER,  # drop timers: binary heap
    "view_nodes": INDEX,  # what is shown to the policy
    "view_ready": READY,
    "view_latency": NUMBER,  # (nodes, S)
    "view_demand": NUMBER,
    "view_energy": NUMBER,
    "answer": ANSWER,
    "answer_priority": NUMBER,
    "subjobs": SUBJOB,  # records, as many as layers can run
    "decisions": DECISION,
    "free_in": NUMBER,  # (decisions, S)
    "terms": NUMBER,  # linear policies: (columns, nodes) of what waits (linear/columns.py), and orders of it
    "orders": INDEX,
    "numbers": NUMBER,
}

KERNEL = np.dtype(  # the one argument of every kernel function: where arrays stand, sizes, counters, settings
    table_fields(list(ARRAYS))
    + [
        ("num_lanes", "i8"),
        ("num_types", "i8"),
        ("wide_types", "i8"),  # with room for so many that a loop takes several at a time
        ("num_layers", "i8"),  # of the longest model
        ("num_pairs", "i8"),
        ("num_open", "i8"),  # open-loop requests
        ("num_heaps", "i8"),
        ("ring_length", "i8"),
        ("slot_capacity", "i8"),
        ("node_capacity", "i8"),
        ("next_open", "i8"),  # counters: next open-loop request to arrive
        ("num_think", "i8"),
        ("num_timers", "i8"),
        ("num_running", "i8"),
        ("num_waiting", "i8"),
        ("num_fresh", "i8"),
        ("num_standing", "i8"),
        ("num_marked", "i8"),
        ("free_slot", "i8"),  # heads of the free lists; -1 = none
        ("free_node", "i8"),
        ("used_slots", "i8"),  # high-water marks
        ("used_nodes", "i8"),
        ("sequence", "i8"),
        ("num_subjobs", "i8"),  # rows in the record
        ("num_decisions", "i8"),  # layers started since the start of the run
        ("events", "i8"),  # layers completed
        ("instants", "i8"),
        ("rounds", "i8"),  # decision rounds
        ("scored", "i8"),  # keys computed at decisions
        ("idle_mask", "i8"),  # bit s = accelerator s is idle, for the first 62
        ("unclear", "i8"),  # rounding decided whether somebody may start
        ("heads_stale", "i8"),  # a request was dropped: first nodes of heaps may be dead
        ("gaps_moved", "i8"),  # some pair's indicator may be another than its keys read
        ("dirty", "i8"),  # running set changed: rates are stale
        ("linear_at", "u8"),  # machine code of a linear policy's decision; 0 = none
        ("phase", "i8"),  # where to go on when the kernel is entered again
        ("loads_known", "i8"),  # the accelerators' free_in_s are those of this instant
        ("asked", "i8"),  # the round at this instant has begun and was charged
        ("shown", "i8"),  # sub-jobs in the view
        ("fault", "i8"),  # row of the answer that was illegal
        ("next_tick", "i8"),  # index of the next period boundary
        ("next_late_s", "f8"),  # no first node of a standing heap becomes late before
        ("scheduler_free_s", "f8"),
        ("demand_true", "f8"),  # D
        ("common_rate", "f8"),  # of all busy lanes; 0 = each has its own
        ("saturated_s", "f8"),  # time with D > B
        ("bytes_moved", "f8"),  # integral of min(D, B) dt
        ("mode", "i8"),  # settings (setup.py)
        ("place", "i8"),
        ("bind", "i8"),
        ("base", "i8"),  # keyed loop: what keeps a heap in order
        ("demand_wanted", "i8"),  # the rule or the record reads the estimated demand
        ("types_wanted", "i8"),  # the placement rule reads the summaries per type
        ("sieved", "i8"),  # what the rule reads of a heap's rows never changes
        ("tiered", "i8"),  # late sub-jobs go last
        ("feasible", "i8"),
        ("throttle", "i8"),
        ("gate", "f8"),
        ("contention", "i8"),  # code of the model, and facts of it:
        ("alike", "i8"),  # 1 = one rate for all lanes, 2 = each is slowed by the networks beside it
        ("free_below", "i8"),  # all rates are 1 while D <= B
        ("roofline", "i8"),  # how a lane slows under its grant
        ("weighs", "i8"),  # rates depend on urgencies
        ("late", "i8"),
        ("drop_expired", "i8"),
        ("patch", "i8"),
        ("period_cap", "i8"),
        ("switches", "i8"),
        ("record", "i8"),
        ("seed", "i8"),
        ("headroom", "i8"),  # nodes and timers that one event can need
        ("period_s", "f8"),  # 0 = event-driven
        *[(name, "f8") for name in ("decision_s", "ahead")],  # ``ahead``: see Rules
        ("jitters", "i8"),
        ("learn", "f8"),  # weight of the newest layer time in ewma mode; 0 = estimates stay
        ("sli_ewma", "f8"),
        ("horizon_s", "f8"),
    ],
    align=True,
)
