"""Lookahead: simulate the options in the engine before deciding (docs/lookahead.md), one idea per file.

Modules:

    keys       orders of the portfolio by number
    memory     the workspace that compiled code sees
    companion  allocates it beside a running engine
    snapshot   the live part of the engine's state, as the scheduler believes it to be
    rollout    one plan followed to the horizon
    futures    sampled arrivals
    objective  what a rollout is worth
    agenda     what waits in a rollout, in order
    deliberate a new plan at once, where time is free
    standing   a plan that is corrected while the system runs
    choose     the decision itself
    values     the worth of every candidate at one decision, for learners
    policy     the policy and its settings
"""
