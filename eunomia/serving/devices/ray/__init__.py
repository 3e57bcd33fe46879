"""A device whose worker is a Ray actor on another node: the process here that relays, the actor there."""
