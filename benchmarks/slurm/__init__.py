"""A real private Slurm beside the simulator."""
