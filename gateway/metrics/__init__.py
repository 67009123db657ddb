"""Metrics that belong to no single room."""
