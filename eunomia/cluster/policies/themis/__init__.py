"""Themis (NSDI 2020): finish-time fairness by partial-allocation auctions. Written from descriptions; no code exists.

:mod:`division` and :mod:`proportional` divide whole GPUs fairly, :mod:`auction` computes hidden payments,
:mod:`agent` an app's bid. :mod:`arbiter` chooses bidders and deals out the rest, :mod:`allocator` gives
leases. :mod:`tuner` is the hyperparameter search that ends losing trials early. Deviations:
docs/deviations.d/cluster-peers.md.
"""
