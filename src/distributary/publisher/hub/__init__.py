"""Joins, the fan-out of changes, and resume."""
