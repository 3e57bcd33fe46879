"""What a learned policy sees: names and formulas, compiled, and as a plain twin."""
