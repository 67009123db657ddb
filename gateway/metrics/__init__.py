"""Metrics of the process, which belong to no other package."""
