"""What must be done: tenants, networks, requests. Imports nothing of hardware."""
