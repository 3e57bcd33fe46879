"""A learned policy as a few readable rules: found, written down, read back, compiled."""
