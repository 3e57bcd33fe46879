"""A linear learned policy inside the event loop: its decision reads the kernel's own memory, not a copy of it.

The decision is, bit for bit, that of learning/policy/decide.py, which networks, trees, ticks and Python ask. What a
sub-job brings along is kept in columns while it waits; straight loops over columns compute the features that have a
weight. Orders by deadline, work and score are kept from one event to the next and repaired. Of the start margin a
bound is known for all that wait: where it stays below 0, nothing more is tried.

Modules:

    columns    what is kept of each waiting sub-job, and where
    keeping    who waits: columns and orders after arrivals, starts and drops
    features   sums over all that waits, then one loop per feature
    ranking    scores, and who comes first
    placing    where one sub-job would run, and whether it may start now
    decision   the pass of one instant
    seat       memory for one run
"""
