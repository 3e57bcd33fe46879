"""Several servers that keep one set of promises: each charges its tenants for what the others have served."""
