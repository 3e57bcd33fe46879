"""The same callables on many processes."""
