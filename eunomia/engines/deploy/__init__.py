"""Servers on other machines: a plan of files as a value, rendered as text, acted on by the tools of those machines."""
