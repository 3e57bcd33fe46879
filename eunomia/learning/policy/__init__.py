"""How a learned policy decides: its weights, the compiled decision, its starting points, its guards."""
