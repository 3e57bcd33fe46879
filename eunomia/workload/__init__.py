"""What must be done: tenants, networks, requests. Knows nothing of hardware."""
