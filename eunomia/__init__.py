"""Eunomia: schedulers that give every tenant the service it was promised."""

__version__ = "0.1.0"
