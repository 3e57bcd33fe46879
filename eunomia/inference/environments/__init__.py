"""Worlds beside the scheduling of requests, each with its own simulator."""
