"""What everything stands on: errors, registries, schemas, records, atomic writes, provenance, ownership."""
