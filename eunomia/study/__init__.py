"""Run, compare, sweep: the one place that wires networks, hardware, requests, policies and metrics together."""
