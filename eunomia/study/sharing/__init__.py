"""Several tenants on one device: each mechanism of :mod:`eunomia.sharing` beside its baselines, by seeds."""
