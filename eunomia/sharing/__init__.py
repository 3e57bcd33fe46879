"""One device, several tenants: what sharing costs, and who should share."""
