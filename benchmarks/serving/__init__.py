"""Measurements of the live server on this machine: each module is a command; ``--write`` puts its part into the page."""
