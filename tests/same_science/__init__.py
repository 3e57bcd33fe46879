"""Whether two checkouts give equal tables: random scenarios, cluster experiments, the demo and a study, digested."""
