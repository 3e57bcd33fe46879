"""Placing whole tasks on volunteers' devices under preferences and hard rules; actor-critic driven by events."""
