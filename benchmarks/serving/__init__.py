"""Measurements of the live server here: each module is a command; ``--write`` puts its part into the page."""
