"""Devices that run networks with PyTorch: on a GPU where there is one, else on the processor."""
