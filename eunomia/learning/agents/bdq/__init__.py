"""Branching Q-learning: one branch per accelerator, each choosing a waiting sub-job or to hold, in parallel."""
