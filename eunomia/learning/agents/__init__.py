"""Gradient trainers for comparison, one file per algorithm, over the vector environment."""
