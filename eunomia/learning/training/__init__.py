"""How a policy is trained: episodes, objectives, the evolution strategy, and a run that survives being killed."""
