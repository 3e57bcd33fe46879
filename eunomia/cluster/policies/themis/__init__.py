"""Themis (NSDI 2020): finish-time fairness by partial-allocation auctions. Written from descriptions; no code exists.

:mod:`division` and :mod:`proportional` the fair division of whole GPUs, :mod:`auction` hidden payments,
:mod:`agent` what an app would bid, :mod:`arbiter` who may bid and who gets the rest, :mod:`allocator` leases,
:mod:`tuner` the hyperparameter search that ends losing trials early. Deviations: docs/deviations.d/cluster-peers.md.
"""
