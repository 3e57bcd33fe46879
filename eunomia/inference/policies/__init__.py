"""Scheduling policies, one idea per file."""
