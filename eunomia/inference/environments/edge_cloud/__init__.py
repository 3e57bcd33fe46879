"""Whole tasks placed on volunteers' devices, under preferences and hard rules."""
