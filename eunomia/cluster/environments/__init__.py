"""Worlds beside the scheduling of training jobs: a pool of rented machines, deferrable jobs."""
