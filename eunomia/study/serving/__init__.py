"""Experiments on a running server's own traffic: its digital twin, training on it, promotion."""
