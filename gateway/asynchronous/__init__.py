"""Requests that are answered later: journalled, queued, tried, and their answers put away."""
