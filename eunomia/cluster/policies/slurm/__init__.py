"""Slurm as an allocator: multifactor priority, fair share and backfill, written from Slurm's public documentation."""
