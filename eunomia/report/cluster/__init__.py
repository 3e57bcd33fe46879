"""Reports of cluster runs: one offline page, and the story of one job."""
