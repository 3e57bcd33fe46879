"""An open-loop load generator: what users would send, sent when they would send it."""
