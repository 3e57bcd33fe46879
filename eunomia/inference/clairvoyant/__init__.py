"""The best schedule that a search finds which knows all arrivals: the lower end of the bracket (docs/bounds.md)."""

from eunomia.inference.clairvoyant.search import Found, SearchOptions, search_schedule

__all__ = ["Found", "SearchOptions", "search_schedule"]
