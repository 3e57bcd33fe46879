"""Which block runs where next: the simulator's policies on the wall clock."""
