"""Acts on a Slurm cluster as values, and the commands that perform them."""
