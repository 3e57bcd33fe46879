"""Scheduling policies, one idea per file. ``load_policy(name)`` finds them all."""

from eunomia.inference.policies.catalogue import POLICIES, load_policy, policy_name

__all__ = ["POLICIES", "load_policy", "policy_name"]
