"""Wing 1: requests run layer by layer on heterogeneous sub-accelerators."""
