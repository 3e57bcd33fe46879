"""What a learned policy sees: names and formulas, compiled, and in reference form."""
