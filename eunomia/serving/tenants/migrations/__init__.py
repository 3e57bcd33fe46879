"""Steps that bring a database of tenants from any older version to this one."""
