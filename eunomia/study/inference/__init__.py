"""Inference experiments: from a scenario to networks, costs, requests and policies."""
