"""Networks that need no file: built in code with seeded weights, for the demonstration and for tests."""
