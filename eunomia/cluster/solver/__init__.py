"""Programmes over time shares, solved and checked: linear by a compiled interior point or HiGHS, conic by Clarabel."""
