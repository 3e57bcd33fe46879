"""Devices: one worker process each, tensors in shared memory, small messages over a socket."""
