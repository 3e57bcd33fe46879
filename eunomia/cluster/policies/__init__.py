"""Allocators: who gets which share of which device type; by name in :mod:`~eunomia.cluster.policies.catalogue`."""
