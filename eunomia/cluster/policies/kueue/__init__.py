"""Kueue as an allocator: quotas, cohorts, borrowing and preemption, written from Kueue's public documentation."""
