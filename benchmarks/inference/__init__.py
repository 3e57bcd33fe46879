"""What is measured of the inference wing and of what it learned."""
